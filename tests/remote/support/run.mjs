// Runs the client as its user does: as a process of its own, with its own home.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { issuedTokens } from "./coda.mjs";

export const CLIENT = fileURLToPath(new URL("../../../remote/coda-bot.mjs", import.meta.url));
export const SKILL = fileURLToPath(new URL("../../../remote/SKILL.md", import.meta.url));
const FAST_TIMERS = fileURLToPath(new URL("./fast-timers.cjs", import.meta.url));
export const { NODE = process.execPath } = process.env;

export const RECORD_A = "grok-bot:3f6c0a:bot%20one";
export const RECORD_B = "grok-bot:3f6c0a:bot-%E4%BA%8C";

export function temporaryFolder(t) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "coda-bot-test-"));
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A home that does not exist yet, as on a new computer. */
export const newHome = (t) => path.join(temporaryFolder(t), "store");

/** Nothing of the outer environment but what is named; no proxy, no real home. */
export function environment(home, { speed, ...extra } = {}) {
  const env = { PATH: process.env.PATH, HOME: path.dirname(home), CODA_BOT_HOME: home, ...extra };
  if (speed) Object.assign(env, { NODE_OPTIONS: `--require ${FAST_TIMERS}`, TEST_SPEED: String(speed) });
  return env;
}

export function assertNoToken(...texts) {
  for (const text of texts) for (const token of issuedTokens) assert.ok(!text.includes(token), "a token was printed");
}

export function start(home, args, env = {}) {
  const child = spawn(NODE, [CLIENT, ...args], { env: environment(home, env), stdio: ["pipe", "pipe", "pipe"] });
  child.output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) child[name].setEncoding("utf8").on("data", (text) => (child.output[name] += text));
  child.stdin.on("error", () => {});
  child.done = once(child, "close").then(([code, signal]) => {
    assertNoToken(child.output.stdout, child.output.stderr);
    return { code, signal, ...child.output };
  });
  return child;
}

export function run(home, args, env) {
  const child = start(home, args, env);
  child.stdin.end();
  return child.done;
}

export async function bound(coda, home, record = RECORD_A) {
  const result = await run(home, ["bind", coda.address, coda.issueCode(record)]);
  assert.equal(result.code, 0, result.stderr);
  return result;
}

/** The MCP server, spoken to by hand, a line at a time. */
export class Mcp {
  messages = [];
  #waiting = [];

  constructor(t, home, args = [], env = {}) {
    this.child = start(home, ["mcp", ...args], env);
    let rest = "";
    this.child.stdout.on("data", (text) => {
      rest += text;
      const lines = rest.split("\n");
      rest = lines.pop();
      for (const line of lines) this.#arrived(JSON.parse(line));
    });
    t.after(() => this.child.kill("SIGKILL"));
  }

  #arrived(message) {
    this.messages.push(message);
    this.#waiting = this.#waiting.filter(({ matches, resolve }) => !(matches(message) && (resolve(message), true)));
  }

  write(text) {
    this.child.stdin.write(text);
  }

  send(message) {
    this.write(JSON.stringify(message) + "\n");
  }

  /** The first message that matches, arrived or to come. */
  next(matches) {
    const known = this.messages.find(matches);
    if (known) return Promise.resolve(known);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ matches, resolve });
      this.child.done.then(() => reject(new Error(`the server ended: ${this.child.output.stderr}`)), reject);
    });
  }

  request(id, method, params = {}) {
    this.send({ jsonrpc: "2.0", id, method, params });
    return this.next((message) => message.id === id);
  }

  async initialize(protocolVersion = "2025-11-25") {
    const params = { protocolVersion, capabilities: {}, clientInfo: { name: "test", version: "1" } };
    const answer = await this.request(`initialize ${protocolVersion}`, "initialize", params);
    this.send({ jsonrpc: "2.0", method: "notifications/initialized" });
    return answer.result;
  }

  call(id, name, args = {}) {
    return this.request(id, "tools/call", { name, arguments: args });
  }

  end() {
    this.child.stdin.end();
    return this.child.done;
  }
}

export const modernMeta = (protocolVersion = "2026-07-28") => ({
  "io.modelcontextprotocol/protocolVersion": protocolVersion,
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
});
