// MCP as others speak it: three clients that were not written here, each with
// every protocol version from the oldest to the newest that it can speak.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as LegacyTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/sdk/types.js";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Coda, issuedTokens } from "./support/coda.mjs";
import { CLIENT, NODE, RECORD_A, bound, environment, newHome } from "./support/run.mjs";

const EXAMPLES = {
  coda_machines: {},
  coda_machine_diagnostics: { machine: "m1" },
  coda_read_thread: { thread: "线程", limit: 5 },
  coda_read_tool_call: { thread: "t", toolCall: "c" },
  coda_workflow_list: { project: "p" },
  coda_workflow_status: { run: "r" },
  coda_file_ticket: { key: "k", title: "🦀" },
};

async function prepared(t) {
  const coda = await Coda.start(t);
  const home = newHome(t);
  await bound(coda, home);
  const server = { command: NODE, args: [CLIENT, "mcp", RECORD_A], env: environment(home), stderr: "pipe" };
  return { coda, home, server };
}

/** What every client must be able to do, whatever its version. */
async function useAll(client, coda) {
  assert.equal(client.getServerVersion().name, "coda-bot");
  assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), Object.keys(EXAMPLES));
  for (const [name, args] of Object.entries(EXAMPLES)) {
    const result = await client.callTool({ name, arguments: args });
    assert.ok(!result.isError);
    const { params, method } = coda.calls.at(-1);
    assert.deepEqual(result.structuredContent ?? JSON.parse(result.content[0].text), { echo: method, params: JSON.parse(JSON.stringify(params)) });
  }
  assert.equal((await client.callTool({ name: "coda_file_ticket", arguments: { key: "" } })).isError, true);
  await assert.rejects(client.callTool({ name: "nope", arguments: {} }), ({ code }) => code === -32602);
  coda.onCall = () => undefined; // hangs, and is cancelled by the client
  const abort = new AbortController();
  const pending = client.callTool({ name: "coda_machines", arguments: {} }, ...(client instanceof LegacyClient ? [undefined] : []), { signal: abort.signal });
  const count = coda.calls.length;
  while (coda.calls.length === count) await new Promise(setImmediate);
  abort.abort();
  await assert.rejects(pending);
  coda.onCall = () => "still there";
  assert.equal((await client.callTool({ name: "coda_machines", arguments: {} })).content[0].text, "still there");
}

for (const version of [...SUPPORTED_PROTOCOL_VERSIONS].reverse()) {
  test(`@modelcontextprotocol/sdk with ${version}`, async (t) => {
    const { coda, server } = await prepared(t);
    const transport = new LegacyTransport(server);
    // This client offers its newest version alone; an older build of it is played by the wire.
    const send = transport.send.bind(transport);
    transport.send = (message) => send(message.method === "initialize" ? { ...message, params: { ...message.params, protocolVersion: version } } : message);
    let agreed;
    transport.setProtocolVersion = (text) => (agreed = text);
    const client = new LegacyClient({ name: "test", version: "1" });
    await client.connect(transport);
    t.after(() => client.close());
    assert.equal(agreed, version === "2024-10-07" ? "2025-11-25" : version);
    await useAll(client, coda);
    await client.ping();
    assert.equal(typeof client.getInstructions(), "string");
  });
}

const ways = {
  "the legacy era, 2024-11-05": [{ supportedProtocolVersions: ["2024-11-05"] }, "legacy", "2024-11-05"],
  "the legacy era, 2025-11-25": [{}, "legacy", "2025-11-25"],
  "the modern era, pinned": [{ versionNegotiation: { mode: { pin: "2026-07-28" } } }, "modern", "2026-07-28"],
  "an era that is probed for": [{ versionNegotiation: { mode: "auto" } }, "modern", "2026-07-28"],
};
for (const [name, [options, era, version]] of Object.entries(ways)) {
  test(`@modelcontextprotocol/client in ${name}`, async (t) => {
    const { coda, server } = await prepared(t);
    const client = new Client({ name: "test", version: "1" }, options);
    await client.connect(new StdioClientTransport(server));
    t.after(() => client.close());
    assert.deepEqual([client.getProtocolEra(), client.getNegotiatedProtocolVersion()], [era, version]);
    await useAll(client, coda);
    assert.equal(typeof client.getInstructions(), "string");
  });
}

test("@modelcontextprotocol/client asking for a version of tomorrow is told, not left waiting", async (t) => {
  const { server } = await prepared(t);
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: { pin: "2027-01-01" } } });
  await assert.rejects(client.connect(new StdioClientTransport(server)), ({ data }) => data?.supported?.includes("2026-07-28"));
});

const INSPECTOR = fileURLToPath(new URL("./node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", import.meta.url));

async function inspect(home, ...args) {
  const command = [INSPECTOR, "--cli", NODE, CLIENT, "mcp", RECORD_A, "-e", `CODA_BOT_HOME=${home}`, "--format", "json", ...args];
  const child = spawn(process.execPath, command, { env: environment(home), stdio: ["ignore", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.on("data", (part) => (stdout += part));
  child.stderr.on("data", (part) => (stderr += part));
  const [code] = await once(child, "close");
  for (const token of issuedTokens) assert.ok(!(stdout + stderr).includes(token));
  return { code, stderr, answer: stdout && JSON.parse(stdout) };
}

for (const era of ["legacy", "modern", "auto"]) {
  test(`the Inspector's command line, ${era} era`, async (t) => {
    const { coda, home } = await prepared(t);
    const list = await inspect(home, "--protocol-era", era, "--method", "tools/list", "--strict");
    assert.equal(list.code, 0, list.stderr);
    assert.deepEqual((list.answer.tools ?? list.answer.result.tools).map(({ name }) => name), Object.keys(EXAMPLES));
    const call = await inspect(home, "--protocol-era", era, "--method", "tools/call", "--tool-name", "coda_file_ticket", "--tool-args-json", '{"key":"键"}');
    assert.equal(call.code, 0, call.stderr);
    assert.equal(coda.calls[0].params.key, "键");
    assert.equal((call.answer.structuredContent ?? call.answer.result.structuredContent).echo, "file_ticket");
    coda.tokens.clear();
    const refused = await inspect(home, "--protocol-era", era, "--method", "tools/call", "--tool-name", "coda_machines");
    assert.match(JSON.stringify(refused), /no longer accepts this binding/);
  });
}
