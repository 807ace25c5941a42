#!/usr/bin/env node
// coda-bot: lets a Bot on its own computer use Coda over the user's tailnet.
//
// One file, no dependency, Node 18 or later. It talks to three things only: the
// Coda address it was bound to, the `tailscale` command line (to ask for its
// state), and, if the tailnet is reached that way, an HTTP proxy on this very
// computer. The token that binding yields stays in one file that only this user
// can read; it is never printed, and sent nowhere but to the bound address.

import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import https from "node:https";
import { isIP } from "node:net";
import os from "node:os";
import path from "node:path";
import tls from "node:tls";
import { fileURLToPath } from "node:url";

const VERSION = "0.5.0";
const MAX_REQUEST_BYTES = 256 * 1024; // Coda's limit for one call
const MAX_ANSWER_BYTES = 8 * 1024 * 1024;
const MAX_LINE_BYTES = 4 * 1024 * 1024; // of one MCP message
const CALL_LIMIT_MS = 60_000;
const PROBE_LIMIT_MS = 10_000; // for each question that `net` asks
const DRAIN_LIMIT_MS = 5_000; // for calls still running when stdin ends
const LOCK_STALE_MS = 180_000; // longer than any holder can need
const LOCK_WAIT_MS = 240_000;

const USAGE = `usage: node coda-bot.mjs <command>

  net                    can this computer reach the tailnet? says what to do if not
  bind <address> <code>  bind a Bot's record with the code that Coda sent
  mcp [recordId]         MCP server on stdio for a bound record
  status                 bound records, and whether each still answers
  unbind [recordId]      forget a binding on this computer

The id may be left out when exactly one record is bound.
Bindings live in $CODA_BOT_HOME, or else in ~/.coda-bot.`;

const REBIND =
  "Ask the user to press 绑定 (Bind) for this Bot on the Grok Bot page in Coda, " +
  "then run the command that arrives: node coda-bot.mjs bind <address> <code>";
const TICKET_UNCERTAIN =
  "The ticket may have been filed all the same: look with coda_workflow_status first, " +
  "then repeat coda_file_ticket with the same key.";

/** A failure whose message tells the reader what to do. `certain`: nothing was carried out. */
class Failure extends Error {
  constructor(message, { certain = false, kind } = {}) {
    super(message);
    this.certain = certain;
    this.kind = kind;
  }
}

// ---------------------------------------------------------------- output

const secrets = new Set(); // every token this process has seen

/** Coda's answers are printed too; should one echo a token, it stops here. */
function scrub(text) {
  for (const secret of secrets) text = text.split(secret).join("[token]");
  return text;
}

/** Text from elsewhere, made safe for a terminal and kept short. */
function quote(text) {
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ").trim().slice(0, 2000);
}

const say = (text) => process.stdout.write(scrub(text) + "\n");
const warn = (text) => process.stderr.write(scrub(text) + "\n");

/** A record id holds `%` and `:`; the commands we print must survive a shell. */
const shellWord = (word) => (/^[\w%:@.,+=/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

// ---------------------------------------------------------------- store

const home = () => path.resolve(process.env.CODA_BOT_HOME || path.join(os.homedir(), ".coda-bot"));
const storeFile = () => path.join(home(), "bindings.json");

/** lstat that says `undefined` where nothing is. */
const look = (file) => fs.lstatSync(file, { throwIfNoEntry: false });

/** A link could make us read or write somewhere else; another owner could read along. */
function mustBeOurs(file, stat, isRightType) {
  if (!isRightType || stat.isSymbolicLink()) {
    throw new Failure(`${file} is a symbolic link or not what it should be; refusing to use it. Remove it, or set CODA_BOT_HOME to another folder.`);
  }
  if (process.getuid && stat.uid !== process.getuid()) {
    throw new Failure(`${file} belongs to another user; refusing to use it. Set CODA_BOT_HOME to a folder of your own.`);
  }
}

function openFolder({ create = false } = {}) {
  const folder = home();
  if (create && !look(folder)) fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const stat = look(folder);
  if (!stat) return false;
  mustBeOurs(folder, stat, stat.isDirectory());
  if (process.getuid && stat.mode & 0o077) fs.chmodSync(folder, 0o700);
  return true;
}

/** The store as it is now; an absent one is empty. `proxy` is the path that `net` found. */
function readStore() {
  const file = storeFile();
  const stat = openFolder() && look(file);
  if (!stat) return { proxy: null, records: [] };
  mustBeOurs(file, stat, stat.isFile());
  const fd = fs.openSync(file, fs.constants.O_RDONLY | (fs.constants.O_NOFOLLOW ?? 0));
  let text;
  try {
    if (process.getuid && fs.fstatSync(fd).mode & 0o077) fs.fchmodSync(fd, 0o600);
    text = fs.readFileSync(fd, "utf8");
  } finally {
    fs.closeSync(fd);
  }
  let store;
  try {
    store = JSON.parse(text);
  } catch {
    throw new Failure(`${file} is damaged. Move it away, then bind every Bot again. ${REBIND}`);
  }
  if (store?.version > 2) throw new Failure(`${file} was written by a newer coda-bot.mjs. Use that version.`);
  if (store?.version !== 2) {
    throw new Failure(`${file} has the layout of an older coda-bot.mjs; binding must be done again. ${REBIND}`, { kind: "older" });
  }
  const isText = (value) => typeof value === "string" && value !== "";
  const isRecord = (entry) => isText(entry?.record) && isText(entry.address) && isText(entry.token);
  if (!Array.isArray(store.records) || !store.records.every(isRecord)) {
    throw new Failure(`${file} is damaged. Move it away, then bind every Bot again. ${REBIND}`);
  }
  for (const entry of store.records) secrets.add(entry.token);
  return { proxy: isText(store.proxy) ? parseProxy(store.proxy) : null, records: store.records };
}

/** What can still be kept when the store is about to be written: nothing, of an older layout. */
function readStoreToChange() {
  try {
    return readStore();
  } catch (error) {
    if (error.kind !== "older") throw error;
    warn("note: the bindings of an older coda-bot.mjs are replaced; every other Bot must be bound again.");
    return { proxy: null, records: [] };
  }
}

/** Complete and private from its first byte, then put in place in one step. */
function writeStore(store) {
  const file = storeFile();
  const stat = look(file);
  if (stat) mustBeOurs(file, stat, stat.isFile());
  for (const name of fs.readdirSync(home())) {
    // Left by a process that was killed while it saved: only the lock's holder writes.
    if (/^bindings\.json\..+\.tmp$/.test(name)) fs.unlinkSync(path.join(home(), name));
  }
  const temporary = `${file}.${randomUUID()}.tmp`;
  const fd = fs.openSync(temporary, "wx", 0o600);
  try {
    fs.fchmodSync(fd, 0o600); // an odd umask may have taken even our own bits
    fs.writeFileSync(fd, JSON.stringify({ version: 2, ...store }, null, 2) + "\n");
    fs.fsyncSync(fd);
    fs.renameSync(temporary, file);
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw error;
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Runs `change(save)` while no other coda-bot process may change the store. The
 * lock is a file that names its holder; one whose holder has died, or that is
 * older than any holder can be, is removed.
 */
async function withLock(change) {
  openFolder({ create: true });
  const lock = path.join(home(), "lock");
  const mine = JSON.stringify({ pid: process.pid, host: os.hostname(), id: randomUUID() });
  const draft = `${lock}.${randomUUID()}`;
  const read = (file) => {
    try {
      return fs.readFileSync(file, "utf8");
    } catch {
      return undefined; // released between two looks
    }
  };
  const deadline = Date.now() + LOCK_WAIT_MS;
  fs.writeFileSync(draft, mine, { flag: "wx", mode: 0o600 });
  try {
    for (let told = false; ; ) {
      try {
        fs.linkSync(draft, lock); // fails if it exists; a reader never sees half a lock
        break;
      } catch (error) {
        if (error.code !== "EEXIST") throw error;
      }
      const held = read(lock);
      if (held !== undefined && isStale(lock, held)) {
        // Renaming lets one process alone remove it. If in between it became
        // somebody's live lock, that is put back.
        const removed = `${draft}.stale`;
        try {
          fs.renameSync(lock, removed);
          if (read(removed) !== held) fs.linkSync(removed, lock);
        } catch (error) {
          if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error;
        }
        fs.rmSync(removed, { force: true });
        continue;
      }
      if (Date.now() > deadline) throw new Failure(`Another coda-bot process keeps ${lock}. End it, or remove the file, and try again.`);
      if (!told) warn("waiting for another coda-bot process to finish ...");
      told = true;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  } finally {
    fs.rmSync(draft, { force: true });
  }
  try {
    return await change((store) => {
      if (read(lock) !== mine) throw new Failure("This process lost the lock of the store; nothing was saved. Run the command again.");
      writeStore(store);
    });
  } finally {
    if (read(lock) === mine) fs.rmSync(lock, { force: true });
  }
}

function isStale(lock, held) {
  const stat = look(lock);
  if (!stat) return false;
  if (Date.now() - stat.mtimeMs > LOCK_STALE_MS) return true;
  try {
    const { pid, host } = JSON.parse(held);
    if (host !== os.hostname()) return false; // a shared folder: its pids tell us nothing
    process.kill(pid, 0); // sends nothing, only asks whether the process lives
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}

/** The binding meant by an optional record id. */
function pick(records, id) {
  const list = records.map((entry) => `  ${entry.record}`).join("\n");
  if (records.length === 0) throw new Failure(`No record is bound on this computer. ${REBIND}`);
  const found = id === undefined ? records.length === 1 && records[0] : records.find((entry) => entry.record === id);
  if (found) return found;
  throw new Failure(id === undefined ? `Several records are bound; name one:\n${list}` : `No record ${quote(id)} is bound. Bound are:\n${list}`);
}

// ---------------------------------------------------------------- requests

function parseAddress(text) {
  let url;
  try {
    url = new URL(text);
  } catch {
    // told below
  }
  // The raw text is judged too: URL drops an empty query and bends odd characters.
  if (!url || !/^https?:\/\/[^\s\\?#@\u0000-\u001f]{1,2048}$/i.test(text) || url.username || url.password || url.search || url.hash) {
    throw new Failure("The address must be http:// or https:// without user, query or fragment, such as http://100.64.0.1:8080. Copy the bind command exactly as it arrived.");
  }
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** The token passes through the proxy, so only one on this computer will do. */
function parseProxy(text) {
  try {
    const url = new URL(text);
    const local = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(url.hostname);
    return url.protocol === "http:" && local && !url.username && !url.password ? url.origin : null;
  } catch {
    return null;
  }
}

const bareHost = (url) => url.hostname.replace(/^\[|\]$/g, "");
const portOf = (url) => url.port || (url.protocol === "https:" ? 443 : 80);

/** Asks the proxy for a tunnel: the socket, or the proxy's refusal. */
function tunnel(proxy, host, signal) {
  return new Promise((resolve, reject) => {
    const via = new URL(proxy);
    const options = { host: bareHost(via), port: portOf(via), method: "CONNECT", path: host, headers: { host }, agent: false, autoSelectFamily: true, signal };
    const request = http.request(options);
    request.on("connect", (response, socket) => {
      if (response.statusCode >= 200 && response.statusCode < 300) return resolve(socket);
      socket.destroy();
      reject(Object.assign(new Error(`the proxy answered ${response.statusCode}`), { proxyStatus: response.statusCode }));
    });
    request.on("error", reject);
    request.on("close", () => reject(new Error("the proxy closed the connection")));
    request.end();
  });
}

/**
 * One request and its one answer, as {status, text}; bounded in size and time.
 * node:http is used because fetch of Node 18 knows no proxy. Nothing is retried
 * and no redirect is followed: the token goes to the bound address alone.
 */
async function exchange(method, address, { body, token, proxy, signal, limit = CALL_LIMIT_MS } = {}) {
  const url = new URL(address);
  const control = new AbortController();
  const onCancel = () => control.abort();
  const timer = setTimeout(() => control.abort("time"), limit);
  signal?.addEventListener("abort", onCancel, { once: true });
  if (signal?.aborted) onCancel();
  try {
    const headers = { host: url.host, accept: "application/json", "accept-encoding": "identity", "user-agent": `coda-bot/${VERSION}` };
    if (token) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) Object.assign(headers, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
    const options = { method, headers, signal: control.signal, autoSelectFamily: true };
    let client = http;
    if (proxy && url.protocol === "https:") {
      const host = bareHost(url);
      const socket = await tunnel(proxy, `${url.hostname}:${portOf(url)}`, control.signal);
      const secured = tls.connect({ socket, host, servername: isIP(host) ? undefined : host });
      Object.assign(options, { path: url.pathname, createConnection: () => secured });
    } else if (proxy) {
      const via = new URL(proxy);
      Object.assign(options, { host: bareHost(via), port: portOf(via), path: url.href, agent: false });
    } else {
      if (url.protocol === "https:") client = https;
      Object.assign(options, { host: bareHost(url), port: portOf(url), path: url.pathname, agent: false });
    }
    return await new Promise((resolve, reject) => {
      const brokenOff = () => reject(new Failure("The connection to Coda broke off before the answer was complete.", { kind: "network" }));
      const request = client.request(options, (response) => {
        const parts = [];
        let size = 0;
        response.on("data", (part) => {
          size += part.length;
          if (size <= MAX_ANSWER_BYTES) return void parts.push(part);
          reject(new Failure(`Coda's answer is larger than ${MAX_ANSWER_BYTES} bytes. Ask for less at once, for example with a smaller limit.`));
          request.destroy();
        });
        response.on("end", () => (response.complete ? resolve({ status: response.statusCode, text: Buffer.concat(parts).toString() }) : brokenOff()));
        response.on("error", brokenOff);
      });
      request.on("error", (error) => {
        const never = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"].includes(error.code);
        reject(new Failure(`Coda at ${url.origin} can't be reached (${quote(error.code ?? error.message)}).`, { kind: "network", certain: never }));
      });
      request.on("close", brokenOff); // whatever else may end it
      request.end(body);
    });
  } catch (error) {
    if (control.signal.reason === "time") throw new Failure(`Coda did not answer within ${limit / 1000} seconds.`, { kind: "network" });
    if (error instanceof Failure) throw error;
    throw new Failure(`Coda at ${url.origin} can't be reached through ${proxy} (${quote(error.code ?? error.message)}).`, { kind: "network", certain: true });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onCancel);
  }
}

const parseObject = (text) => {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
};

const NEXT_NET = "Check the way with: node coda-bot.mjs net";

/** What to do about an answer that is no success. */
function refusal({ status, text }, { binding, proxy }) {
  const body = parseObject(text) ?? {};
  const detail = body.error && typeof body.error === "object" ? body.error : body;
  const code = typeof detail.code === "string" ? quote(detail.code) : typeof body.error === "string" ? quote(body.error) : "";
  const message = typeof detail.message === "string" ? quote(detail.message) : "";
  const said = [code, message].filter(Boolean).join(": ");
  const certain = { certain: true };
  if (status >= 300 && status < 400) {
    return new Failure(`The bound address answers with a redirect (${status}). It is not followed, since the token is for the bound address alone. ${REBIND}`, certain);
  }
  if (status === 429) {
    return new Failure(binding ? "Too many bindings in this minute (429); the code is not used up. Wait a minute, then run the same command again." : "Coda gets too many requests (429). Wait a minute, then try again.", certain);
  }
  if (status === 409) {
    const advice = {
      invalid_state: "Coda can't use this Bot's session now (invalid_state): its folder is gone, or it was never started. Ask the user to open it in Coda, then try again.",
      archived: "This Bot's session is archived in Coda (archived). Ask the user to take it out of the archive, then try again.",
      remote_unsupported: "Coda can't reach this Bot's session from outside (remote_unsupported). Ask the user to update and activate the Grok Bot plugin in Coda, then try again.",
    };
    return new Failure(Object.hasOwn(advice, code) ? advice[code] : `Coda refuses this now (409 ${said}). Tell the user.`, certain);
  }
  if (status === 502 && code === "agent_error") return new Failure(`Coda reports an error: ${message || "it gives no reason"} (agent_error).`);
  if (status === 503 && code === "connection_lost") return new Failure("Coda lost the connection to this Bot's session before it answered (connection_lost). Try again in a minute.");
  if (proxy && status >= 500) return new Failure(`Coda can't be reached through ${proxy} (${status}). ${NEXT_NET}`);
  if (binding && status >= 400 && status < 500 && status !== 404) {
    return new Failure(`Coda does not accept this code (${status}): a code works once and for 10 minutes. ${REBIND}`, certain);
  }
  if (status === 401) return new Failure(`Coda no longer accepts this binding (401): it was replaced or withdrawn. ${REBIND}`, certain);
  if (status === 404) return new Failure(`The bound address has no remote entry (404). Coda with protocol 5.7.0 or later is needed; ask the user. ${REBIND}`, certain);
  if (status === 413) return new Failure("The request is too large for Coda (413). Shorten the arguments.", certain);
  return new Failure(`Coda answered ${status}${said && ` (${said})`}. ${status < 500 ? "Check the arguments." : "Try again later."}`, { certain: status < 500 });
}

/** POST JSON, get a JSON object, or fail with advice. */
async function post(address, content, { proxy, binding = false, ...options }) {
  const body = JSON.stringify(content);
  const size = Buffer.byteLength(body);
  if (size > MAX_REQUEST_BYTES) {
    throw new Failure(`The request has ${size} bytes; Coda takes at most ${MAX_REQUEST_BYTES}. Shorten the arguments.`, { certain: true });
  }
  let answer;
  try {
    answer = await exchange("POST", address, { ...options, proxy, body });
  } catch (error) {
    if (error.kind === "network") error.message += ` ${NEXT_NET}`;
    throw error;
  }
  if (answer.status < 200 || answer.status > 299) throw refusal(answer, { binding, proxy });
  const value = parseObject(answer.text);
  if (!value) throw new Failure(`The answer is not what Coda sends (no JSON object). Is the address really Coda's? ${NEXT_NET}`);
  return value;
}

/** Calls a method for a record. The store is read anew, so that a new binding counts at once. */
async function call(record, method, params, signal) {
  const { proxy, records } = readStore();
  const { address, token } = pick(records, record);
  const answer = await post(`${parseAddress(address)}/v1/remote-caller`, { method, params }, { token, proxy, signal });
  if (!Object.hasOwn(answer, "result")) throw new Failure("Coda's answer has no result. Coda with protocol 5.7.0 or later is needed; ask the user.");
  return answer.result;
}

// ---------------------------------------------------------------- commands

async function bind(address, code) {
  const base = parseAddress(address);
  if (!/^[A-Za-z0-9._+/=:-]{1,512}$/.test(code)) throw new Failure("That is not a bind code. Copy the bind command exactly as it arrived.");
  // The lock is held while Coda answers: of two bindings of one record the later
  // token is the valid one, and must be the one that is stored last.
  const record = await withLock(async (save) => {
    const store = readStoreToChange(); // before the code is spent
    const answer = await post(`${base}/v1/remote-caller/bind`, { code }, { proxy: store.proxy, binding: true });
    const { token, record } = answer;
    const isRecord = typeof record === "string" && /^[^\u0000-\u001f\u007f]{1,1024}$/.test(record);
    if (typeof token !== "string" || !/^[\x21-\x7e]{1,4096}$/.test(token) || /["\\]/.test(token) || !isRecord) {
      throw new Failure(`Coda's answer holds no token and record. ${REBIND}`);
    }
    secrets.add(token);
    const records = store.records.filter((entry) => entry.record !== record);
    records.push({ record, address: base, token, boundAt: new Date().toISOString() });
    save({ ...store, records });
    return record;
  });
  say(`bound: ${record}\nat: ${base}\nMCP server: node ${shellWord(fileURLToPath(import.meta.url))} mcp ${shellWord(record)}`);
}

async function status() {
  const { records } = readStore();
  if (records.length === 0) throw new Failure(`No record is bound on this computer. ${REBIND}`);
  const asked = records.map(({ record }) => call(record, "tool", { name: "coda_machines", arguments: {} }));
  for (const [index, outcome] of (await Promise.allSettled(asked)).entries()) {
    const { record, address } = records[index];
    if (outcome.status === "rejected") process.exitCode = 1;
    say(`${record}\n  at ${address}\n  ${outcome.status === "fulfilled" ? "answers" : `FAIL ${outcome.reason.message}`}`);
  }
}

async function unbind(id) {
  const record = await withLock((save) => {
    const store = readStore();
    const { record } = pick(store.records, id);
    save({ ...store, records: store.records.filter((entry) => entry.record !== record) });
    return record;
  });
  say(`forgotten on this computer: ${record}`);
}

/** Runs the tailnet client's command line with a bound on time; never through a shell. */
function tailscale(...args) {
  const programs = ["tailscale"];
  if (process.platform === "darwin") programs.push("/Applications/Tailscale.app/Contents/MacOS/Tailscale");
  const run = (program) =>
    new Promise((resolve) => {
      const options = { timeout: PROBE_LIMIT_MS, killSignal: "SIGKILL", maxBuffer: MAX_ANSWER_BYTES };
      execFile(program, args, options, (error, stdout) => resolve({ missing: error?.code === "ENOENT", failed: Boolean(error), stdout }));
    });
  return programs.reduce((outcome, program) => outcome.then((known) => (known?.missing === false ? known : run(program))), Promise.resolve());
}

async function net() {
  const sudo = process.getuid?.() === 0 ? "" : "sudo ";
  const userspace = `${sudo}tailscaled --tun=userspace-networking --outbound-http-proxy-listen=localhost:1055`;
  const pass = (step, detail) => say(`ok    ${step}: ${detail}`);
  const fail = (step, detail, next) => {
    say(`FAIL  ${step}: ${detail}\n      next: ${next}\n      then: node coda-bot.mjs net`);
    process.exitCode = 1;
  };

  const version = await tailscale("version");
  if (version.missing) return fail("tailnet client", "Tailscale is not installed", "curl -fsSL https://tailscale.com/install.sh | sh");
  pass("tailnet client", `installed, ${quote(version.stdout).split(" ")[0] || "version unknown"}`);

  const state = parseObject((await tailscale("status", "--json", "--peers=false")).stdout);
  if (!state?.BackendState) {
    const start = fs.existsSync("/run/systemd/system") ? `${sudo}systemctl start tailscaled` : `${userspace} &`;
    return fail("daemon", "not running, or it does not answer", start);
  }
  pass("daemon", "running");

  const up = `${sudo}tailscale up`;
  if (state.BackendState === "NeedsLogin") return fail("signed in", "no", `${up}   (give the link that it prints to the user)`);
  if (state.BackendState === "NeedsMachineAuth") return fail("signed in", "this device waits for approval", "ask the user to approve this device in the tailnet's admin console");
  if (state.BackendState === "Stopped") return fail("signed in", "yes, but the connection is switched off", up);
  if (state.BackendState !== "Running") return fail("signed in", `not ready yet (${quote(state.BackendState)})`, "wait ten seconds");
  pass("signed in", "yes");

  const own = (Array.isArray(state.Self?.TailscaleIPs) ? state.Self.TailscaleIPs : []).filter((ip) => isIP(ip));
  if (own.length === 0) return fail("own address", "none", up);
  pass("own address", own.join(", "));

  const store = readStoreToChange();
  const addresses = [...new Set(store.records.map((entry) => parseAddress(entry.address)))];
  const answers = async (address, proxy) => {
    try {
      // Behind a proxy a 5xx is most likely its own: it found no way.
      const { status } = await exchange("GET", `${address}/`, { proxy, limit: PROBE_LIMIT_MS });
      return !proxy || status < 500;
    } catch {
      return false;
    }
  };
  const anyAnswers = async (proxy) => (await Promise.all(addresses.map((address) => answers(address, proxy)))).includes(true);

  // With a TUN device the own address sits on an interface and every program
  // reaches the tailnet. In userspace mode only the daemon's HTTP proxy does.
  const interfaces = Object.values(os.networkInterfaces()).flat().map((each) => each.address);
  let proxy;
  if (state.TUN !== false && own.some((ip) => interfaces.includes(ip))) {
    proxy = null;
    pass("path", "direct");
  } else {
    const named = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"].map((name) => process.env[name]);
    const candidates = [...new Set([store.proxy, ...named, "http://localhost:1055"].map((text) => text && parseProxy(text)).filter(Boolean))];
    const working = [];
    for (const candidate of candidates) if (await isProxy(candidate, own[0])) working.push(candidate);
    for (const candidate of working) if (proxy === undefined && (await anyAnswers(candidate))) proxy = candidate;
    proxy ??= working[0];
    if (!proxy) return fail("path", `no device on this computer carries the tailnet, and no HTTP proxy answers at ${candidates.join(" or ")}`, `stop the daemon, then start it with: ${userspace} &`);
    pass("path", `through the userspace proxy ${proxy}`);
  }
  if (proxy !== store.proxy) await withLock((save) => save({ ...readStoreToChange(), proxy }));
  if (addresses.length === 0) return;
  for (const address of addresses) {
    if (await answers(address, proxy)) pass("Coda", `${address} answers`);
    else fail("Coda", `${address} does not answer`, `tailscale ping ${shellWord(bareHost(new URL(address)))}   (no answer: ask the user whether that computer is on and in the tailnet)`);
  }
}

/** A proxy takes CONNECT, even if it can't get through; anything else answers 4xx or hangs up. */
async function isProxy(proxy, ip) {
  const control = new AbortController();
  const timer = setTimeout(() => control.abort(), PROBE_LIMIT_MS);
  try {
    (await tunnel(proxy, isIP(ip) === 6 ? `[${ip}]:80` : `${ip}:80`, control.signal)).destroy();
    return true;
  } catch (error) {
    return error.proxyStatus >= 500 && error.proxyStatus !== 501;
  } finally {
    clearTimeout(timer);
  }
}

// ---------------------------------------------------------------- MCP

const LEGACY_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN_VERSION = "2026-07-28";
const META = "io.modelcontextprotocol/";

const string = (description) => ({ type: "string", description });
const readTool = (name, title, description, properties) => ({
  name,
  title,
  description,
  inputSchema: { type: "object", properties },
  annotations: { readOnlyHint: true },
});

/** The schemas name what a Bot needs; other arguments pass untouched, Coda judges them. */
const TOOLS = [
  readTool("coda_machines", "List machines", "Lists the machines that Coda knows and the state of each.", {}),
  readTool("coda_machine_diagnostics", "Diagnose a machine", "Reads one machine's diagnostics.", {
    machine: string("id of the machine, from coda_machines"),
  }),
  readTool("coda_read_thread", "Read a thread", "Reads a page of a thread's messages; the newest page without after and before.", {
    thread: string("id of the thread"),
    after: string("cursor: only what is newer"),
    before: string("cursor: only what is older"),
    limit: { type: "integer", minimum: 1, description: "most messages on the page" },
  }),
  readTool("coda_read_tool_call", "Read a tool call", "Reads one tool call of a thread in full.", {
    thread: string("id of the thread"),
    toolCall: string("id of the tool call"),
  }),
  readTool("coda_workflow_list", "List workflows", "Lists the workflows that may be started from here.", {
    project: string("id of a directory, to see only its workflows"),
  }),
  readTool("coda_workflow_status", "Workflow status", "Tells how workflow runs are doing, among them filed tickets.", {
    run: string("id of the run, the run.id that coda_file_ticket returned"),
  }),
  {
    name: "coda_file_ticket",
    title: "File a ticket",
    description:
      "Files a ticket for a problem by starting a workflow, bot-ticket unless another is named; keep the run.id that it returns. " +
      "key names the problem: the same problem always has the same key, with no time and no random number in it. " +
      "No second ticket while the one for that key is open.",
    inputSchema: {
      type: "object",
      properties: {
        key: string("stable name of the problem, such as web-startup-slow"),
        title: string("one line"),
        body: string("symptom, impact, time range, version, evidence"),
        project: string("id of the directory; needed only where several allow the workflow"),
        workflow: string("name of the workflow; bot-ticket if left out"),
      },
      required: ["key"],
    },
    annotations: { readOnlyHint: false, destructiveHint: false },
  },
];

const INSTRUCTIONS =
  "Tools to look at the user's Coda and to file tickets there. Results with isError say what to do. " +
  "Before filing a ticket, check the noted ones with coda_workflow_status.";

class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    Object.assign(this, { code, data });
  }
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

async function callTool(record, { name, arguments: args = {} }, signal) {
  const tool = TOOLS.find((each) => each.name === name);
  if (!tool) throw new RpcError(-32602, `Unknown tool: ${quote(name)}`);
  if (!isObject(args)) throw new RpcError(-32602, "arguments must be an object");
  const ticket = name === "coda_file_ticket";
  try {
    if (ticket && (typeof args.key !== "string" || args.key.trim() === "")) {
      throw new Failure("key is missing. Give the problem a stable name, the same each time: no time, no random number.", { certain: true });
    }
    const result = ticket
      ? await call(record, "file_ticket", { ...args, workflow: args.workflow ?? "bot-ticket", requestId: randomUUID() }, signal)
      : await call(record, "tool", { name, arguments: args }, signal);
    const text = typeof result === "string" ? result : JSON.stringify(result);
    return { content: [{ type: "text", text }], ...(isObject(result) && { structuredContent: result }) };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const text = ticket && !error.certain ? `${error.message} ${TICKET_UNCERTAIN}` : error.message;
    return { content: [{ type: "text", text }], isError: true };
  }
}

/**
 * Serves both eras at once, deciding by each message: a request that carries the
 * metadata of 2026-07-28 is served from that alone; `initialize` and whatever
 * comes without that metadata belongs to the eras before.
 */
async function mcp(id) {
  const { record } = pick(readStore().records, id);
  const running = new Map(); // request id -> AbortController
  const answered = new Set(); // promises of messages still being worked on
  let legacyVersion; // of the last initialize; it decides about batches only

  const send = (message) => process.stdout.write(scrub(JSON.stringify(message)) + "\n");
  // Without an id, since none could be read and MCP knows no null id.
  const failure = (code, message, id) => ({ jsonrpc: "2.0", ...(id !== undefined && { id }), error: { code, message } });

  async function serve(method, params, signal) {
    const meta = isObject(params._meta) ? params._meta : {};
    const modern = Object.hasOwn(meta, `${META}protocolVersion`);
    const requested = meta[`${META}protocolVersion`];
    if (modern) {
      if (typeof requested !== "string") throw new RpcError(-32602, `_meta["${META}protocolVersion"] must be a string`);
      if (requested !== MODERN_VERSION) throw new RpcError(-32022, "Unsupported protocol version", { supported: [MODERN_VERSION], requested });
      if (!isObject(meta[`${META}clientCapabilities`])) throw new RpcError(-32602, `_meta["${META}clientCapabilities"] must be an object`);
    }
    const serverInfo = { name: "coda-bot", title: "Coda", version: VERSION };
    const complete = modern ? { resultType: "complete" } : {};
    const cache = modern ? { ttlMs: 3_600_000, cacheScope: "public" } : {};
    const capabilities = { tools: {} };
    if (method === "tools/list") {
      if (params.cursor !== undefined) throw new RpcError(-32602, "There is one page of tools only; leave cursor out");
      return { ...complete, ...cache, tools: TOOLS };
    }
    if (method === "tools/call") return { ...complete, ...(await callTool(record, params, signal)) };
    if (modern && method === "server/discover") {
      return { ...complete, ...cache, supportedVersions: [MODERN_VERSION], capabilities, instructions: INSTRUCTIONS, _meta: { [`${META}serverInfo`]: serverInfo } };
    }
    if (!modern && method === "ping") return {};
    if (!modern && method === "initialize") {
      if (typeof params.protocolVersion !== "string") throw new RpcError(-32602, "protocolVersion must be a string");
      legacyVersion = LEGACY_VERSIONS.includes(params.protocolVersion) ? params.protocolVersion : LEGACY_VERSIONS.at(-1);
      return { protocolVersion: legacyVersion, capabilities, serverInfo, instructions: INSTRUCTIONS };
    }
    throw new RpcError(-32601, `Method not found: ${quote(method)}`);
  }

  /** The answer to one message, or undefined where none is due. */
  async function handle(message) {
    if (!isObject(message) || message.jsonrpc !== "2.0") return failure(-32600, "Not a JSON-RPC 2.0 message");
    const { id, method, params = {} } = message;
    const hasId = Object.hasOwn(message, "id");
    if (method === undefined && (Object.hasOwn(message, "result") || Object.hasOwn(message, "error"))) return undefined; // we never ask
    if (typeof method !== "string") return failure(-32600, "method must be a string", hasId && isId(id) ? id : undefined);
    if (!hasId) {
      if (method === "notifications/cancelled") running.get(params?.requestId)?.abort();
      return undefined;
    }
    if (!isId(id)) return failure(-32600, "id must be a string or an integer");
    if (!isObject(params)) return failure(-32602, "params must be an object", id);
    if (running.has(id)) return failure(-32600, "A request with this id is still running", id);
    const control = new AbortController();
    running.set(id, control);
    try {
      const result = await serve(method, params, control.signal);
      return control.signal.aborted ? undefined : { jsonrpc: "2.0", id, result };
    } catch (error) {
      if (control.signal.aborted) return undefined;
      if (error instanceof RpcError) return { jsonrpc: "2.0", id, error: { code: error.code, message: error.message, ...(error.data && { data: error.data }) } };
      warn(`internal error: ${quote(error.message)}`);
      return failure(-32603, "Internal error", id);
    } finally {
      running.delete(id);
    }
  }

  async function batch(messages) {
    if (legacyVersion !== "2025-03-26") return failure(-32600, "Batches are not supported in this protocol version");
    if (messages.length === 0) return failure(-32600, "The batch is empty");
    const answers = (await Promise.all(messages.map(handle))).filter(Boolean);
    return answers.length > 0 ? answers : undefined;
  }

  function receive(line) {
    let message;
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(line);
      if (text.trim() === "") return;
      message = JSON.parse(text);
    } catch {
      send(failure(-32700, "Not JSON"));
      return;
    }
    const work = Promise.resolve(Array.isArray(message) ? batch(message) : handle(message)).then((answer) => {
      answered.delete(work);
      if (answer) send(answer);
    });
    answered.add(work);
  }

  // Bytes, not text, are gathered until the newline: a character may be split
  // over two chunks. Of a line that is too long only the length is kept.
  let parts = [];
  let size = 0;
  const finish = () => {
    if (size > MAX_LINE_BYTES) send(failure(-32600, `A message may have at most ${MAX_LINE_BYTES} bytes`));
    else if (size > 0) receive(Buffer.concat(parts));
    parts = [];
    size = 0;
  };
  const gather = (bytes) => {
    size += bytes.length;
    if (size <= MAX_LINE_BYTES) parts.push(bytes);
    else parts = [];
  };
  try {
    for await (const chunk of process.stdin) {
      let rest = chunk;
      for (let end; (end = rest.indexOf(10)) !== -1; rest = rest.subarray(end + 1)) {
        gather(rest.subarray(0, end));
        finish();
      }
      gather(rest);
    }
  } catch {
    // A broken stdin is an ended one.
  }
  finish();
  const patience = new Promise((resolve) => setTimeout(resolve, DRAIN_LIMIT_MS));
  await Promise.race([Promise.all(answered), patience]);
  process.stdout.write("", () => process.exit(0));
}

const isId = (id) => typeof id === "string" || Number.isInteger(id);

// ---------------------------------------------------------------- start

const COMMANDS = { net: [net, 0, 0], bind: [bind, 2, 2], mcp: [mcp, 0, 1], status: [status, 0, 0], unbind: [unbind, 0, 1] };

// Whoever read our output has gone: there is nobody left to work for.
process.stdout.on("error", () => process.exit(0));
process.stderr.on("error", () => {});

const [name, ...args] = process.argv.slice(2);
const [command, least, most] = Object.hasOwn(COMMANDS, name ?? "") ? COMMANDS[name] : [];
if (name === "help" || name === "--help" || name === "-h") {
  say(USAGE);
} else if (!command || args.length < least || args.length > most) {
  warn(USAGE);
  process.exitCode = 2;
} else {
  try {
    await command(...args);
  } catch (error) {
    warn(`coda-bot: ${error instanceof Failure ? error.message : quote(error.message)}`);
    process.exitCode = 1;
  }
}
