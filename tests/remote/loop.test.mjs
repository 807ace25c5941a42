// The whole way on one machine: a host opens the bind view, the provider sends
// its message, the simulated Bot receives it, the Bot's shell runs the line in
// it, and an MCP client that was not written here calls every tool.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { judge } from "../judge.mjs";
import { Coda } from "./support/coda.mjs";
import { CLIENT, NODE, SKILL, assertNoToken, temporaryFolder } from "./support/run.mjs";

const PROGRAM = process.env.CODA_GROK_BOT_BINARY ?? fileURLToPath(new URL("../../target/debug/coda-grok-bot", import.meta.url));
const skip = fs.existsSync(PROGRAM) ? false : "the program is not built: cargo build";

function program(t, args, env) {
  const child = spawn(PROGRAM, args, { env: { PATH: process.env.PATH, GROK_BOT_TEST: "1", ...env }, stdio: ["pipe", "pipe", "pipe"] });
  child.output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) child[name].setEncoding("utf8").on("data", (text) => (child.output[name] += text));
  t.after(() => child.kill("SIGKILL"));
  return child;
}

/** `simulate`, and a way to steer it. */
async function simulate(t) {
  const child = program(t, ["simulate", "--still"]);
  const values = {};
  for await (const line of createInterface({ input: child.stdout })) {
    const [, name, value] = /(GROK_BOT_\w+_URL|x-control-key)[=:] ?(\S+)/.exec(line) ?? [];
    if (name) values[name] = value;
    if (Object.keys(values).length === 3) break;
  }
  const { "x-control-key": key, ...env } = values;
  const control = async (operation, body = {}) => {
    const headers = { "x-control-key": key };
    const answer = await fetch(`${env.GROK_BOT_BACKEND_URL}/control/${operation}`, { method: "POST", headers, body: JSON.stringify(body) });
    assert.equal(answer.status, 200);
    return answer.json();
  };
  return { env, control };
}

/** A host of `serve`: it gives a code of `coda` to whoever asks for one. */
class Host {
  records = new Map();
  asked = []; // records that a code was asked for
  #waiting = new Map();
  #next = 1;

  constructor(child, coda) {
    this.child = child;
    createInterface({ input: child.stdout }).on("line", (line) => this.#heard(JSON.parse(line), coda));
  }

  #send(message) {
    this.child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
  }

  #heard({ id, method, params, result, error }, coda) {
    if (method === "records/put") this.records.set(params.record.title, params.record.id);
    if (method === "protocols/remoteCode") {
      this.asked.push(params.record);
      const code = { code: coda.issueCode(params.record), expiresAt: new Date(Date.now() + 600_000).toISOString(), addresses: [coda.address] };
      this.#send({ id, result: code });
    }
    if (method === undefined) this.#waiting.get(id)({ result, error });
  }

  async ask(method, params = {}) {
    const id = this.#next++;
    const answer = new Promise((resolve) => this.#waiting.set(id, resolve));
    this.#send({ id, method, params });
    const { result, error } = await answer;
    assert.equal(error, undefined, method);
    return result;
  }
}

async function until(what, condition) {
  for (const begun = Date.now(); ; ) {
    const found = await condition();
    if (found) return found;
    assert.ok(Date.now() - begun < 40_000, `never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const EXAMPLES = {
  coda_machines: {},
  coda_machine_diagnostics: { machine: "m-1" },
  coda_read_thread: { thread: "线程", limit: 5 },
  coda_read_tool_call: { thread: "t-1", toolCall: "c-1" },
  coda_workflow_list: { project: "p-1" },
  coda_workflow_status: { run: "r-1" },
  coda_file_ticket: { key: "web-startup-slow", title: "启动慢🦀" },
};

test("from the button to every tool: provider, Bot, shell, client", { skip }, async (t) => {
  const coda = await Coda.start(t);
  const service = await simulate(t);
  await service.control("add-bot", { name: "环路" });

  const data = path.join(temporaryFolder(t), "data");
  const child = program(t, ["serve"], { ...service.env, CODA_PLUGIN_DATA: data });
  const host = new Host(child, coda);
  await host.ask("initialize", { protocolVersion: "5.7.0", host: { name: "test", version: "1" } });
  const { url } = await host.ask("resource/signIn");
  await service.control("confirm", { link: url });
  const record = await until("the Bot's record", () => host.records.get("环路"));
  assert.deepEqual(host.asked, [], "no code is asked for by itself");
  assert.deepEqual(await host.ask("view/open", { view: "bind", args: [record] }), { status: "sent", text: "已发给 Bot" });
  assert.deepEqual(host.asked, [record]);

  const { received } = await service.control("received-messages");
  assert.equal(received.length, 1);
  const [{ text }] = received;
  const [sentence, line, ...more] = text.split("\n");
  assert.ok(sentence.includes("coda-bot.mjs") && more.length === 0, text);

  // The Bot's computer: an empty folder, the two files, a shell.
  const folder = temporaryFolder(t);
  for (const file of [CLIENT, SKILL]) fs.copyFileSync(file, path.join(folder, path.basename(file)));
  const bin = path.join(temporaryFolder(t), "bin");
  fs.mkdirSync(bin);
  fs.symlinkSync(NODE, path.join(bin, "node"));
  const env = { PATH: `${bin}:/usr/bin:/bin`, HOME: folder };
  const shell = spawn("/bin/sh", ["-c", line], { cwd: folder, env, stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  shell.stdout.setEncoding("utf8").on("data", (part) => (said += part));
  assert.deepEqual(await once(shell, "close"), [0, null], said);
  assertNoToken(said);
  assert.ok(said.startsWith(`bound: ${record}\n`), said);

  const client = new Client({ name: "test", version: "1" });
  t.after(() => client.close());
  await client.connect(new StdioClientTransport({ command: "node", args: ["coda-bot.mjs", "mcp"], cwd: folder, env, stderr: "inherit" }));
  assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), Object.keys(EXAMPLES));
  for (const [name, args] of Object.entries(EXAMPLES)) {
    const result = await client.callTool({ name, arguments: args });
    assert.ok(!result.isError, name);
    const call = coda.calls.at(-1);
    assert.equal(call.record, record);
    assert.deepEqual(result.structuredContent, { echo: call.method, params: call.params });
    if (name === "coda_file_ticket") assert.deepEqual(call.params, { ...args, workflow: "bot-ticket", requestId: call.params.requestId });
    else assert.deepEqual(call.params, { name, arguments: args });
  }
  assert.equal(coda.calls.length, 7);

  await host.ask("shutdown");
  child.stdin.end();
  assert.deepEqual(await once(child, "close"), [0, null], child.output.stderr);
  assert.ok(child.output.stdout.includes("records/put"));
  await judge(service.control, { printed: [child.output.stdout], logged: [child.output.stderr], folders: [data] });
  assertNoToken(child.output.stdout, child.output.stderr);
});
