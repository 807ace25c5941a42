#!/usr/bin/env node
// coda-bot: lets a Bot on its own computer use Coda over the user's tailnet.
//
// One file, no dependency, Node 18 or later. It talks to three things only: the
// Coda address it was bound to, the `tailscale` command line (to ask for its
// state) and, where the tailnet is reached that way, an HTTP proxy on this very
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
const NEXT_NET = "Check the way with: node coda-bot.mjs net";
const UPGRADE = "Coda with protocol 5.7.0 or later is needed; ask the user.";

/**
 * A failure whose message tells the reader what to do. `certain`: nothing was
 * carried out. `network`: it lies with the way to Coda. `rpc`: its JSON-RPC code.
 */
class Failure extends Error {
  constructor(message, more = {}) {
    super(message);
    Object.assign(this, more);
  }
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isText = (value) => typeof value === "string" && value !== "";

/** The object that a text holds, or undefined. */
function parseObject(text) {
  try {
    const value = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** What the action yields (true for nothing), or undefined if it fails with this code. */
function unless(code, action) {
  try {
    return action() ?? true;
  } catch (error) {
    if (error.code !== code) throw error;
    return undefined;
  }
}

// ---- output

const secrets = new Set(); // every token this process has seen

/** Coda's answers are printed too; should one echo a token, it stops here. */
function scrub(text) {
  for (const secret of secrets) text = text.split(secret).join("[token]");
  return text;
}

/** Text from elsewhere, made safe for a terminal and kept short. */
const quote = (text) => String(text).replace(/[\u0000-\u001f\u007f-\u009f]+/g, " ").trim().slice(0, 2000);
/** A record id may hold what a shell would act on; the commands we print must survive one. */
const shellWord = (word) => (/^[\w%:@.,+=/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

const say = (text) => process.stdout.write(scrub(text) + "\n");
const warn = (text) => process.stderr.write(scrub(text) + "\n");

// ---- store

const home = () => path.resolve(process.env.CODA_BOT_HOME || path.join(os.homedir(), ".coda-bot"));
const storeFile = () => path.join(home(), "bindings.json");
const look = (file) => fs.lstatSync(file, { throwIfNoEntry: false });

/** A link could lead us elsewhere, and another owner could read along: both are refused. Too wide a mode is narrowed. */
function secure(file, stat, isRightType, mode) {
  const problem = !isRightType ? "is a symbolic link or not what it should be" : process.getuid && stat.uid !== process.getuid() && "belongs to another user";
  if (problem) throw new Failure(`${file} ${problem}; refusing to use it. Remove it, or set CODA_BOT_HOME to another folder.`);
  if (process.getuid && stat.mode & 0o077) fs.chmodSync(file, mode);
}

/** The store as it is now; `proxy` is the path that `net` found. One that is about to be replaced may be `old`. */
function readStore({ replacing = false } = {}) {
  const [folder, file, empty] = [look(home()), storeFile(), { proxy: null, records: [] }];
  if (folder) secure(home(), folder, folder.isDirectory(), 0o700);
  const stat = look(file);
  if (!stat) return empty;
  secure(file, stat, stat.isFile(), 0o600);
  const store = parseObject(fs.readFileSync(file, { encoding: "utf8", flag: fs.constants.O_RDONLY | (fs.constants.O_NOFOLLOW ?? 0) }));
  if (store?.version > 2) throw new Failure(`${file} was written by a newer coda-bot.mjs. Use that version.`);
  if (store && store.version !== 2) {
    if (replacing) return { ...empty, old: true };
    throw new Failure(`${file} has the layout of an older coda-bot.mjs; binding must be done again. ${REBIND}`);
  }
  const records = store?.records;
  if (!Array.isArray(records) || !records.every((entry) => isText(entry?.record) && isText(entry.address) && isText(entry.token))) {
    throw new Failure(`${file} is damaged. Move it away, then bind every Bot again. ${REBIND}`);
  }
  for (const { token } of records) secrets.add(token);
  return { proxy: parseProxy(store.proxy), records };
}

/** Complete and private from its first byte, then put in place in one step. */
function writeStore({ proxy, records, old }) {
  if (old) warn("note: the bindings of an older coda-bot.mjs are replaced; every other Bot must be bound again.");
  const temporary = `${storeFile()}.tmp`;
  fs.rmSync(temporary, { force: true }); // left by a process that was killed while it saved
  const fd = fs.openSync(temporary, "wx", 0o600);
  try {
    fs.fchmodSync(fd, 0o600); // an odd umask may have taken even our own bits
    fs.writeFileSync(fd, JSON.stringify({ version: 2, proxy, records }, null, 2) + "\n");
    fs.fsyncSync(fd);
    fs.renameSync(temporary, storeFile());
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    throw new Failure(`The store could not be saved (${quote(error.message)}). If this was a bind, its code is spent. ${REBIND}`);
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * Runs `change(save)` while no other coda-bot process may change the store. The
 * lock is a symbolic link that leads nowhere: made in one step, its target says who
 * holds it. One whose holder has died, or older than any holder can be, is removed.
 */
async function withLock(change) {
  if (!look(home())) fs.mkdirSync(home(), { recursive: true, mode: 0o700 });
  readStore({ replacing: true }); // refuses what we must not write to
  const lock = path.join(home(), "lock");
  const mine = `${process.pid}-${randomUUID()}`;
  const holder = () => unless("ENOENT", () => fs.readlinkSync(lock));
  const lives = (pid) => unless("ESRCH", () => unless("EPERM", () => process.kill(pid, 0)) || "another's"); // signal 0 only asks
  for (let told = false; !unless("EEXIST", () => fs.symlinkSync(mine, lock)); ) {
    const seen = holder();
    const age = Math.abs(Date.now() - (look(lock)?.mtimeMs ?? Date.now()));
    if (seen && (age > LOCK_STALE_MS || !lives(parseInt(seen)))) {
      // Renaming lets one process alone remove it; what in between became somebody's live lock is put back.
      const removed = `${lock}.${randomUUID()}`;
      if (!unless("ENOENT", () => fs.renameSync(lock, removed))) continue;
      const taken = fs.readlinkSync(removed);
      if (taken !== seen) unless("EEXIST", () => fs.symlinkSync(taken, lock));
      fs.unlinkSync(removed);
      continue;
    }
    if (!told) warn("waiting for another coda-bot process to finish ...");
    told = true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  try {
    return await change((store) => {
      if (holder() !== mine) throw new Failure("This process lost the lock of the store; nothing was saved. Run the command again.");
      writeStore(store);
    });
  } finally {
    if (holder() === mine) fs.unlinkSync(lock);
  }
}

/** The binding meant by an optional record id. */
function pick(records, id) {
  if (records.length === 0) throw new Failure(`No record is bound on this computer. ${REBIND}`);
  const found = id === undefined ? records.length === 1 && records[0] : records.find(({ record }) => record === id);
  if (found) return found;
  const problem = id === undefined ? "Several records are bound; name one:" : `No record ${quote(id)} is bound. Bound are:`;
  throw new Failure([problem, ...records.map(({ record }) => record)].join("\n  "));
}

// ---- requests

function parseAddress(text) {
  // The raw text is judged, since URL drops an empty query and bends odd characters.
  const url = /^https?:\/\/[^\s\\?#@\u0000-\u001f]{1,2048}$/i.test(text) && unless("ERR_INVALID_URL", () => new URL(text));
  if (!url) throw new Failure("The address must be http:// or https:// without user, query or fragment. Copy the bind command exactly as it arrived.");
  return url.origin + url.pathname.replace(/\/+$/, "");
}

/** The token passes through the proxy, so only one on this computer will do; else null. */
function parseProxy(text) {
  const [, origin] = /^(http:\/\/(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?)\/?$/.exec(text ?? "") ?? [];
  return origin ?? null;
}

/** Where to connect to. Other families of a name are tried too, with patience for a slow tailnet. */
const endpoint = ({ hostname, port, protocol }) => ({
  host: hostname.replace(/^\[|\]$/g, ""),
  port: port || (protocol === "https:" ? 443 : 80),
  autoSelectFamily: true,
  autoSelectFamilyAttemptTimeout: 3_000,
});

/** Asks the proxy for a tunnel: the socket, or the proxy's refusal. */
function tunnel(proxy, target, signal) {
  return new Promise((resolve, reject) => {
    const options = { ...endpoint(new URL(proxy)), method: "CONNECT", path: target, headers: { host: target }, agent: false, signal };
    const request = http.request(options);
    request.on("connect", ({ statusCode }, socket) => {
      if (statusCode >= 200 && statusCode < 300) return resolve(socket);
      socket.destroy();
      reject(Object.assign(new Error(`the proxy answered ${statusCode}`), { statusCode }));
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
async function exchange(method, address, { body, token, proxy, control = new AbortController(), limit = CALL_LIMIT_MS } = {}) {
  const url = new URL(address);
  const timer = setTimeout(() => control.abort("time"), limit);
  try {
    const headers = { host: url.host, accept: "application/json", "user-agent": `coda-bot/${VERSION}` };
    if (token) headers.authorization = `Bearer ${token}`;
    if (body !== undefined) Object.assign(headers, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
    const options = { ...endpoint(url), method, headers, path: url.pathname, agent: false, signal: control.signal };
    let client = url.protocol === "https:" ? https : http;
    if (proxy && client === https) {
      const { host, port } = options;
      const socket = await tunnel(proxy, `${url.hostname}:${port}`, control.signal);
      const secured = tls.connect({ socket, host, servername: isIP(host) ? undefined : host });
      Object.assign(options, { agent: undefined, createConnection: () => secured });
      client = http; // the socket is encrypted already
    } else if (proxy) {
      Object.assign(options, endpoint(new URL(proxy)), { path: url.href });
    }
    return await new Promise((resolve, reject) => {
      const brokenOff = () => reject(new Failure("The connection to Coda broke off before the answer was complete.", { network: true }));
      const request = client.request(options, (response) => {
        const parts = [];
        let size = 0;
        response.on("data", (part) => {
          size += part.length;
          if (size <= MAX_ANSWER_BYTES) return parts.push(part);
          reject(new Failure(`Coda's answer is larger than ${MAX_ANSWER_BYTES} bytes. Ask for less at once, for example with a smaller limit.`));
          request.destroy();
        });
        response.on("end", () => (response.complete ? resolve({ status: response.statusCode, text: Buffer.concat(parts).toString() }) : brokenOff()));
        response.on("error", brokenOff);
      });
      request.on("error", (error) => {
        const certain = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"].includes(error.code);
        reject(new Failure(`Coda at ${url.origin} can't be reached (${quote(error.code ?? error.message)}).`, { network: true, certain }));
      });
      request.on("close", brokenOff); // whatever else may have ended it
      request.end(body);
    });
  } catch (error) {
    if (control.signal.reason === "time") throw new Failure(`Coda did not answer within ${limit / 1000} seconds.`, { network: true });
    if (error instanceof Failure) throw error;
    const reason = quote(error.code ?? error.message);
    throw new Failure(`Coda at ${url.origin} can't be reached through ${proxy} (${reason}).`, { network: true, certain: true });
  } finally {
    clearTimeout(timer);
  }
}

const CONFLICTS = {
  invalid_state: "Coda can't use this Bot's session now: its folder is gone, or it was never started. Ask the user to open it in Coda, then try again.",
  archived: "This Bot's session is archived in Coda. Ask the user to take it out of the archive, then try again.",
  remote_unsupported: "Coda can't reach this Bot's session from outside. Ask the user to update and activate the Grok Bot plugin in Coda, then try again.",
};

/** What to do about an answer that is no success. */
function refusal({ status, text }, { binding, proxy }) {
  const body = parseObject(text) ?? {};
  const { code, message } = isObject(body.error) ? body.error : body;
  const said = [`${status}`, code, message].filter(isText).map(quote).join(": ");
  const refused = (advice) => new Failure(advice, { certain: true });
  if (status === 502 && code === "agent_error") return new Failure(`Coda reports an error (${said}).`);
  if (status === 503 && code === "connection_lost") {
    return new Failure("Coda lost the connection to this Bot's session before it answered (connection_lost). Try again in a minute.");
  }
  if (status >= 500) return new Failure(proxy ? `Coda can't be reached through ${proxy} (${status}). ${NEXT_NET}` : `Coda answers ${said}. Try again later.`);
  if (status >= 300 && status < 400) {
    return refused(`The bound address answers with a redirect (${status}). It is not followed: the token is for the bound address alone. ${REBIND}`);
  }
  if (status === 429) return refused(`Coda gets too many requests (429). Wait a minute, then ${binding ? "run the same command again; the code is not used up" : "try again"}.`);
  if (status === 409 && isText(code) && Object.hasOwn(CONFLICTS, code)) return refused(`${CONFLICTS[code]} (409 ${code})`);
  if (status === 404) return refused(`The address has no remote entry (404). ${UPGRADE} ${REBIND}`);
  if (binding) return refused(`Coda does not accept this code (${status}): a code works once and for 10 minutes. ${REBIND}`);
  if (status === 401) return refused(`Coda no longer accepts this binding (401): it was replaced or withdrawn. ${REBIND}`);
  if (status === 413) return refused("The request is too large for Coda (413). Shorten the arguments.");
  return refused(`Coda refuses this (${said}). Check the arguments, or tell the user.`);
}

/** POST JSON, get a JSON object, or fail with advice. */
async function post(address, content, { binding = false, ...options }) {
  const body = JSON.stringify(content);
  const size = Buffer.byteLength(body);
  if (size > MAX_REQUEST_BYTES) {
    throw new Failure(`The request has ${size} bytes; Coda takes at most ${MAX_REQUEST_BYTES}. Shorten the arguments.`, { certain: true });
  }
  const answer = await exchange("POST", address, { ...options, body }).catch((error) => {
    if (error.network) error.message += ` ${NEXT_NET}`;
    throw error;
  });
  if (answer.status < 200 || answer.status > 299) throw refusal(answer, { binding, proxy: options.proxy });
  const value = parseObject(answer.text);
  if (!value) throw new Failure(`The answer is not what Coda sends (no JSON object). Is the address really Coda's? ${NEXT_NET}`);
  return value;
}

/** A record's binding as the store has it now, so that a new one counts at once. Where this fails, nothing was sent. */
function bindingOf(id) {
  try {
    const { proxy, records } = readStore();
    const { address, token } = pick(records, id);
    return { address: parseAddress(address), token, proxy };
  } catch (error) {
    throw Object.assign(error, { certain: true });
  }
}

/** Calls a method for a record. */
async function call(record, method, params, control) {
  const { address, token, proxy } = bindingOf(record);
  const answer = await post(`${address}/v1/remote-caller`, { method, params }, { token, proxy, control });
  if (!Object.hasOwn(answer, "result")) throw new Failure(`Coda's answer has no result. ${UPGRADE}`);
  return answer.result;
}

// ---- commands

async function bind(text, code) {
  const address = parseAddress(text);
  if (!/^[A-Za-z0-9._+/=:-]{1,512}$/.test(code)) throw new Failure("That is not a bind code. Copy the bind command exactly as it arrived.");
  // The lock is held while Coda answers: of two bindings of one record the later
  // token is the valid one, and must be the one that is stored last.
  const record = await withLock(async (save) => {
    const store = readStore({ replacing: true }); // before the code is spent
    const { token, record } = await post(`${address}/v1/remote-caller/bind`, { code }, { proxy: store.proxy, binding: true });
    // A token of a few letters would be cut out of every word we print.
    const sound = isText(token) && /^[\x21\x23-\x5b\x5d-\x7e]{8,4096}$/.test(token) && isText(record) && /^[^\u0000-\u001f\u007f]{1,1024}$/.test(record);
    if (!sound) throw new Failure(`Coda's answer holds no token and record. ${REBIND}`);
    secrets.add(token);
    const others = store.records.filter((entry) => entry.record !== record);
    save({ ...store, records: [...others, { record, address, token, boundAt: new Date().toISOString() }] });
    return record;
  });
  say(`bound: ${record}\nat: ${address}\nMCP server: node ${shellWord(fileURLToPath(import.meta.url))} mcp ${shellWord(record)}`);
}

async function status() {
  const { records } = readStore();
  if (records.length === 0) pick(records);
  const asked = records.map(({ record }) => call(record, "tool", { name: "coda_machines", arguments: {} }));
  for (const [index, { reason }] of (await Promise.allSettled(asked)).entries()) {
    if (reason) process.exitCode = 1;
    say(`${records[index].record}\n  at ${records[index].address}\n  ${reason ? `FAIL ${reason.message}` : "answers"}`);
  }
}

async function unbind(id) {
  await withLock((save) => {
    const store = readStore();
    const { record } = pick(store.records, id);
    save({ ...store, records: store.records.filter((entry) => entry.record !== record) });
    say(`forgotten on this computer: ${record}`);
  });
}

/** Asks the tailnet client's command line, with a bound on time and never through a shell. */
function tailscale(...args) {
  const options = { timeout: PROBE_LIMIT_MS, killSignal: "SIGKILL", maxBuffer: MAX_ANSWER_BYTES };
  return new Promise((resolve) => {
    execFile("tailscale", args, options, (error, stdout) => resolve({ missing: error?.code === "ENOENT", stdout }));
  });
}

/** A proxy takes CONNECT, even if it can't get through; anything else answers 4xx or hangs up. */
async function isProxy(proxy, ip) {
  try {
    const socket = await tunnel(proxy, isIP(ip) === 6 ? `[${ip}]:80` : `${ip}:80`, AbortSignal.timeout(PROBE_LIMIT_MS));
    socket.destroy();
    return true;
  } catch ({ statusCode }) {
    return statusCode >= 500 && statusCode !== 501;
  }
}

/** Any answer shows the way; behind a proxy a 5xx is most likely its own, for want of one. */
const answers = (address, proxy) =>
  exchange("GET", `${address}/`, { proxy, limit: PROBE_LIMIT_MS }).then(({ status }) => !proxy || status < 500, () => false);

async function net() {
  const sudo = process.getuid?.() === 0 ? "" : "sudo ";
  const up = `${sudo}tailscale up`;
  const userspace = `${sudo}tailscaled --tun=userspace-networking --outbound-http-proxy-listen=localhost:1055 &`;
  const pass = (step, detail) => say(`ok    ${step}: ${detail}`);
  const fail = (step, detail, next) => {
    say(`FAIL  ${step}: ${detail}\n      next: ${next}\n      then: node coda-bot.mjs net`);
    process.exitCode = 1;
  };

  const version = await tailscale("version");
  if (version.missing) return fail("tailnet client", "Tailscale is not installed", "curl -fsSL https://tailscale.com/install.sh | sh");
  pass("tailnet client", `installed, ${quote(version.stdout).split(" ")[0] || "version unknown"}`);

  const state = parseObject((await tailscale("status", "--json", "--peers=false")).stdout);
  const systemd = fs.existsSync("/run/systemd/system");
  if (!isText(state?.BackendState)) {
    return fail("daemon", "not running, or it does not answer", systemd ? `${sudo}systemctl start tailscaled` : userspace);
  }
  pass("daemon", "running");

  const [problem, next] = {
    __proto__: null,
    Running: [],
    NeedsLogin: ["no", `${up}   (give the link that it prints to the user)`],
    NeedsMachineAuth: ["this device waits for approval", "ask the user to approve it in the tailnet's admin console"],
    Stopped: ["yes, but the connection is switched off", up],
  }[state.BackendState] ?? [`not ready yet (${quote(state.BackendState)})`, "wait ten seconds"];
  if (problem) return fail("signed in", problem, next);
  pass("signed in", "yes");

  const own = [state.Self?.TailscaleIPs].flat().filter((ip) => isText(ip) && isIP(ip));
  if (own.length === 0) return fail("own address", "none", up);
  pass("own address", own.join(", "));

  // With a TUN device the own address sits on an interface and every program
  // reaches the tailnet. In userspace mode only the daemon's HTTP proxy does.
  const store = readStore({ replacing: true });
  const addresses = [...new Set(store.records.map((entry) => parseAddress(entry.address)))];
  const interfaces = Object.values(os.networkInterfaces()).flat().map((each) => each.address);
  let proxy = null;
  if (state.TUN !== false && own.some((ip) => interfaces.includes(ip))) {
    pass("path", "direct");
  } else {
    const named = ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"].map((name) => process.env[name]);
    const candidates = [...new Set([store.proxy, ...named, "http://localhost:1055"].map(parseProxy).filter(Boolean))];
    const proxies = await Promise.all(candidates.map((each) => isProxy(each, own[0])));
    const working = candidates.filter((_, index) => proxies[index]);
    const nothing = `no device on this computer carries the tailnet, and no HTTP proxy answers at ${candidates.join(" or ")}`;
    if (working.length === 0) return fail("path", nothing, `${sudo}${systemd ? "systemctl stop" : "pkill -x"} tailscaled; ${userspace}`);
    const leads = await Promise.all(working.map(async (each) => (await Promise.all(addresses.map((address) => answers(address, each)))).includes(true)));
    proxy = working.find((_, index) => leads[index]) ?? working[0]; // rather one that leads to a bound Coda
    pass("path", `through the userspace proxy ${proxy}`);
  }
  if (proxy !== store.proxy) await withLock((save) => save({ ...readStore({ replacing: true }), proxy }));
  for (const address of addresses) {
    const host = shellWord(new URL(address).hostname.replace(/^\[|\]$/g, ""));
    if (await answers(address, proxy)) pass("Coda", `${address} answers`);
    else fail("Coda", `${address} does not answer`, `tailscale ping ${host}   (no answer: ask the user whether that computer is on)`);
  }
}

// ---- MCP

const LEGACY_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN_VERSION = "2026-07-28";
const META = "io.modelcontextprotocol/";
const SERVER = { name: "coda-bot", title: "Coda", version: VERSION };
const CAPABILITIES = { tools: {} };
const INSTRUCTIONS =
  "Tools to look at the user's Coda and to file tickets there. Results with isError say what to do. " +
  "Before filing a ticket, check the noted ones with coda_workflow_status.";

/** A tool. Its schema names what a Bot needs; other arguments pass untouched, Coda judges them. */
function tool(name, title, description, fields, { required, annotations } = { annotations: { readOnlyHint: true } }) {
  const schema = (field) => (field === "limit" ? { type: "integer", minimum: 1 } : { type: "string" });
  const properties = Object.fromEntries(Object.entries(fields).map(([field, text]) => [field, { ...schema(field), description: text }]));
  return { name, title, description, inputSchema: { type: "object", properties, ...(required && { required }) }, annotations };
}

const [PROJECT, THREAD] = ["id of a directory of the user", "id of the thread"];
const PAGE = { after: "cursor: only what is newer", before: "cursor: only what is older", limit: "most messages on the page" };
const TOOLS = [
  tool("coda_machines", "List machines", "Lists the machines that Coda knows and the state of each.", {}),
  tool("coda_machine_diagnostics", "Diagnose a machine", "Reads one machine's diagnostics.", { machine: "id of the machine" }),
  tool("coda_read_thread", "Read a thread", "Reads a page of a thread's messages, by default the newest.", { thread: THREAD, ...PAGE }),
  tool("coda_read_tool_call", "Read a tool call", "Reads one tool call of a thread in full.", { thread: THREAD, toolCall: "id of the tool call" }),
  tool("coda_workflow_list", "List workflows", "Lists the workflows that may be started from here.", { project: PROJECT }),
  tool("coda_workflow_status", "Workflow status", "Tells how runs, such as filed tickets, are doing.", { run: "run.id, as coda_file_ticket returned it" }),
  tool(
    "coda_file_ticket",
    "File a ticket",
    "Files a ticket for a problem by starting a workflow; keep the run.id that it returns. key names the problem: the same problem always " +
      "has the same key, with no time and no random number in it. No second ticket while the one for that key is open.",
    {
      key: "stable name of the problem, such as web-startup-slow",
      title: "one line",
      body: "symptom, impact, time range, version, evidence",
      project: `${PROJECT}; needed only where several allow the workflow`,
      workflow: "name of the workflow; bot-ticket if left out",
    },
    { required: ["key"], annotations: { readOnlyHint: false, destructiveHint: false } },
  ),
];

async function callTool(record, { name, arguments: args = {} }, control) {
  if (!TOOLS.some((each) => each.name === name)) throw new Failure(`Unknown tool: ${quote(name)}`, { rpc: -32602 });
  if (!isObject(args)) throw new Failure("arguments must be an object", { rpc: -32602 });
  const ticket = name === "coda_file_ticket";
  try {
    if (ticket && !(isText(args.key) && args.key.trim())) {
      throw new Failure("key is missing. Give the problem a stable name, the same each time: no time, no random number.", { certain: true });
    }
    const result = ticket
      ? await call(record, "file_ticket", { ...args, workflow: args.workflow ?? "bot-ticket", requestId: randomUUID() }, control)
      : await call(record, "tool", { name, arguments: args }, control);
    const text = typeof result === "string" ? result : JSON.stringify(result);
    return { content: [{ type: "text", text }], ...(isObject(result) && { structuredContent: result }) };
  } catch (error) {
    const uncertain = " The ticket may have been filed all the same: look with coda_workflow_status first, then repeat coda_file_ticket with the same key.";
    return { content: [{ type: "text", text: error.message + (ticket && !error.certain ? uncertain : "") }], isError: true };
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
  const pending = new Set(); // work whose answer is still to be sent
  let legacyVersion; // of the last initialize; it decides about batches only

  const isId = (id) => typeof id === "string" || Number.isSafeInteger(id);
  const send = (message) => process.stdout.write(scrub(JSON.stringify(message)) + "\n");
  // Without an id where none could be read: MCP knows no null id.
  const failed = (code, message, id, data) => ({ jsonrpc: "2.0", ...(id !== undefined && { id }), error: { code, message, ...(data && { data }) } });

  async function serve(method, params, control) {
    const meta = isObject(params._meta) ? params._meta : {};
    const modern = Object.hasOwn(meta, `${META}protocolVersion`);
    const requested = meta[`${META}protocolVersion`];
    if (modern && isText(requested) && requested !== MODERN_VERSION) {
      throw new Failure("Unsupported protocol version", { rpc: -32022, data: { supported: [MODERN_VERSION], requested } });
    }
    if (modern && !(isText(requested) && isObject(meta[`${META}clientCapabilities`]))) {
      throw new Failure(`_meta must hold ${META}protocolVersion (a string) and ${META}clientCapabilities (an object)`, { rpc: -32602 });
    }
    const complete = modern ? { resultType: "complete" } : {};
    const cacheable = modern ? { ...complete, ttlMs: 3_600_000, cacheScope: "public" } : {};
    if (method === "tools/call") return { ...complete, ...(await callTool(record, params, control)) };
    if (method === "tools/list") {
      if (params.cursor !== undefined) throw new Failure("There is one page of tools only; leave cursor out", { rpc: -32602 });
      return { ...cacheable, tools: TOOLS };
    }
    if (modern && method === "server/discover") {
      const about = { supportedVersions: [MODERN_VERSION], capabilities: CAPABILITIES, instructions: INSTRUCTIONS };
      return { ...cacheable, ...about, _meta: { [`${META}serverInfo`]: SERVER } };
    }
    if (!modern && method === "initialize") {
      if (!isText(params.protocolVersion)) throw new Failure("protocolVersion must be a string", { rpc: -32602 });
      legacyVersion = LEGACY_VERSIONS.includes(params.protocolVersion) ? params.protocolVersion : LEGACY_VERSIONS.at(-1);
      return { protocolVersion: legacyVersion, capabilities: CAPABILITIES, serverInfo: SERVER, instructions: INSTRUCTIONS };
    }
    if (!modern && method === "ping") return {};
    throw new Failure(`Method not found: ${quote(method)}`, { rpc: -32601 });
  }

  /** The answer to one message, or undefined where none is due. */
  async function handle(message) {
    const valid = isObject(message) && message.jsonrpc === "2.0";
    const { id, method, params = {} } = valid ? message : {};
    if (valid && method === undefined && ("result" in message || "error" in message)) return undefined; // we never ask
    if (typeof method !== "string" || !(id === undefined || isId(id))) {
      return failed(-32600, "Not a JSON-RPC 2.0 request with a string or an integer as its id", isId(id) ? id : undefined);
    }
    if (id === undefined) {
      if (method === "notifications/cancelled") running.get(params?.requestId)?.abort("cancelled");
      return undefined;
    }
    if (!isObject(params)) return failed(-32602, "params must be an object", id);
    if (running.has(id)) return failed(-32600, "A request with this id is still running", id);
    const control = new AbortController();
    const cancelled = () => control.signal.reason === "cancelled";
    running.set(id, control);
    try {
      const result = await serve(method, params, control);
      return cancelled() ? undefined : { jsonrpc: "2.0", id, result };
    } catch (error) {
      if (cancelled()) return undefined;
      if (error.rpc) return failed(error.rpc, error.message, id, error.data);
      warn(`internal error: ${quote(error.message)}`);
      return failed(-32603, "Internal error", id);
    } finally {
      running.delete(id);
    }
  }

  async function handleBatch(messages) {
    if (legacyVersion !== "2025-03-26") return failed(-32600, "Batches are not supported in this protocol version");
    if (messages.length === 0) return failed(-32600, "The batch is empty");
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
      return send(failed(-32700, "Not JSON"));
    }
    const work = (Array.isArray(message) ? handleBatch(message) : handle(message)).then((answer) => {
      pending.delete(work);
      if (answer) send(answer);
    });
    pending.add(work);
  }

  // Bytes, not text, are gathered until the newline: a character may be split
  // over two chunks. Of a line that is too long only the length is kept.
  let parts = [];
  let size = 0;
  const gather = (bytes) => {
    size += bytes.length;
    if (size <= MAX_LINE_BYTES) parts.push(bytes);
    else parts = [];
  };
  const finish = () => {
    if (size > MAX_LINE_BYTES) send(failed(-32600, `A message may have at most ${MAX_LINE_BYTES} bytes`));
    else receive(Buffer.concat(parts));
    parts = [];
    size = 0;
  };
  try {
    for await (let chunk of process.stdin) {
      for (let end; (end = chunk.indexOf(10)) !== -1; chunk = chunk.subarray(end + 1)) {
        gather(chunk.subarray(0, end));
        finish();
      }
      gather(chunk);
    }
  } catch {
    // A broken stdin is an ended one.
  }
  finish();
  // A call that hangs and a client that has stopped reading are both waited for this long.
  setTimeout(() => process.exit(0), DRAIN_LIMIT_MS);
  await Promise.all(pending);
  process.stdout.write("", () => process.exit(0));
}

// ---- start

// Whoever read our output has gone: there is nobody left to work for.
process.stdout.on("error", () => process.exit(0));
process.stderr.on("error", () => {});

const COMMANDS = { net: [net, 0, 0], bind: [bind, 2, 2], mcp: [mcp, 0, 1], status: [status, 0, 0], unbind: [unbind, 0, 1] };
const [name, ...args] = process.argv.slice(2);
const [command, least, most] = Object.hasOwn(COMMANDS, name ?? "") ? COMMANDS[name] : [];
if (["help", "--help", "-h"].includes(name)) {
  say(USAGE);
} else if (!command || args.length < least || args.length > most) {
  warn(USAGE);
  process.exitCode = 2;
} else {
  await command(...args).catch((error) => {
    warn(`coda-bot: ${error instanceof Failure ? error.message : quote(error.message)}`);
    process.exitCode = 1;
  });
}
