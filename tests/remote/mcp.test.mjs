import assert from "node:assert/strict";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { Coda } from "./support/coda.mjs";
import { Mcp, RECORD_A, RECORD_B, bound, modernMeta, newHome, run } from "./support/run.mjs";

const READ_TOOLS = ["coda_machines", "coda_machine_diagnostics", "coda_read_thread", "coda_read_tool_call", "coda_workflow_list", "coda_workflow_status"];
const TOOLS = [...READ_TOOLS, "coda_file_ticket"];
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

async function ready(t, { records = [RECORD_A], args = [], env } = {}) {
  const coda = await Coda.start(t);
  const home = newHome(t);
  for (const record of records) await bound(coda, home, record);
  return { coda, home, mcp: new Mcp(t, home, args, env) };
}
const textOf = ({ result }) => result.content[0].text;
const code = ({ error }) => error?.code;

// ---- the tools

test("each tool sends the call that Coda expects, arguments untouched", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  const args = { machine: "m 1", thread: "线程🦀", unknown: { deep: [1, null, "x"] }, limit: "not judged here" };
  for (const name of READ_TOOLS) {
    const { result } = await mcp.call(name, name, args);
    assert.deepEqual(result.structuredContent, { echo: "tool", params: { name, arguments: args } });
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
    assert.equal(result.isError, undefined);
    assert.equal(result.resultType, undefined);
  }
  await mcp.request("none", "tools/call", { name: "coda_machines" });
  assert.deepEqual(coda.calls.at(-1).params, { name: "coda_machines", arguments: {} });
});

test("a ticket goes to bot-ticket with a request id of its own, each time", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  await mcp.call(1, "coda_file_ticket", { key: "slow-start", title: "慢", requestId: "mine", extra: 1 });
  await mcp.call(2, "coda_file_ticket", { key: "slow-start", workflow: "other", project: "p" });
  const [first, second] = coda.calls;
  assert.equal(first.method, "file_ticket");
  assert.match(first.params.requestId, UUID);
  assert.deepEqual(first.params, { key: "slow-start", title: "慢", extra: 1, workflow: "bot-ticket", requestId: first.params.requestId });
  assert.deepEqual(second.params, { key: "slow-start", workflow: "other", project: "p", requestId: second.params.requestId });
  assert.notEqual(first.params.requestId, second.params.requestId);
});

test("a ticket without a key is not sent, and the answer says why", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  for (const [id, key] of [undefined, "", "  ", 7, null].entries()) {
    const answer = await mcp.call(id, "coda_file_ticket", { key, title: "t" });
    assert.equal(answer.result.isError, true);
    assert.match(textOf(answer), /key is missing.*same each time/);
  }
  assert.equal(coda.calls.length, 0);
});

test("the list: seven tools in a fixed order, read-only where they are, open schemas", async (t) => {
  const { mcp } = await ready(t);
  await mcp.initialize();
  const { tools } = (await mcp.request(1, "tools/list")).result;
  assert.deepEqual(tools.map(({ name }) => name), TOOLS);
  assert.deepEqual(tools.filter(({ annotations }) => annotations.readOnlyHint).map(({ name }) => name), READ_TOOLS);
  for (const { inputSchema, description } of tools) {
    assert.equal(inputSchema.type, "object");
    assert.ok(inputSchema.additionalProperties !== false);
    assert.ok(description.length > 20);
  }
  const named = Object.fromEntries(tools.map(({ name, inputSchema }) => [name, Object.keys(inputSchema.properties)]));
  assert.deepEqual(named, {
    coda_machines: [],
    coda_machine_diagnostics: ["machine"],
    coda_read_thread: ["thread", "after", "before", "limit"],
    coda_read_tool_call: ["thread", "toolCall"],
    coda_workflow_list: ["project"],
    coda_workflow_status: ["run"],
    coda_file_ticket: ["key", "title", "body", "project", "workflow"],
  });
  assert.deepEqual(tools.map(({ inputSchema }) => inputSchema.required), [...Array(6), ["key"]]);
});

test("results that are no objects come as text alone", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  for (const [id, [value, text]] of [["plain 你好🦀", "plain 你好🦀"], [[1, 2], "[1,2]"], [null, "null"], [0, "0"], [false, "false"]].entries()) {
    coda.onCall = (call, response, send) => void send(200, { result: value });
    const { result } = await mcp.call(id, "coda_machines");
    assert.deepEqual(result, { content: [{ type: "text", text }] });
  }
});

// ---- refusals

const refusals = {
  "401": [(send) => send(401, {}), /no longer accepts this binding \(401\).*Bind.*bind <address> <code>/, false],
  "409 invalid_state": [(send) => send(409, { code: "invalid_state", message: "x" }), /open it in Coda.*409 invalid_state/, false],
  "409 archived": [(send) => send(409, { code: "archived", message: "x" }), /take it out.*409 archived/, false],
  "409 remote_unsupported": [(send) => send(409, { code: "remote_unsupported" }), /update and activate.*409 remote_unsupported/, false],
  "409 nested code": [(send) => send(409, { error: { code: "archived", message: "x" } }), /take it out.*409 archived/, false],
  "409 of another kind": [(send) => send(409, { code: "toString", message: "why" }), /409: toString: why.*tell the user/, false],
  "429": [(send) => send(429, {}), /429.*minute/, false],
  "502 agent_error": [(send) => send(502, { code: "agent_error", message: "no such 线程" }), /no such 线程/, true],
  "503 connection_lost": [(send) => send(503, { code: "connection_lost" }), /connection_lost.*again/, true],
  "404": [(send) => send(404, {}), /no remote entry.*5\.7\.0/, false],
  "413": [(send) => send(413, {}), /too large.*Shorten/, false],
  "400": [(send) => send(400, { code: "bad_params", message: "thread is missing" }), /400: bad_params: thread is missing.*Check the arguments/, false],
  "500 without a word": [(send, response) => response.writeHead(500).end("oops"), /answers 500\. Try again/, true],
  "302": [(send, response) => response.writeHead(302, { location: "http://127.0.0.1:1/" }).end(), /redirect \(302\).*not followed/, false],
  "308": [(send, response) => response.writeHead(308, { location: "/v1/remote-caller" }).end(), /redirect \(308\)/, false],
  "101": [(send, response) => response.socket.end("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"), /broke off/, true],
  "200 without result": [(send) => send(200, { ok: 1 }), /no result/, true],
  "200 that is not JSON": [(send, response) => response.end("<html>"), /no JSON object/, true],
  "an answer cut off": [(send, response) => (response.writeHead(200, { "content-length": 50 }), response.write("{"), setImmediate(() => response.destroy())), /broke off.*coda-bot\.mjs net/, true],
  "chunks cut off": [(send, response) => (response.write('{"result":1}'), setImmediate(() => response.destroy())), /broke off/, true],
  "garbage": [(send, response) => response.socket.end("hello\r\n\r\n"), /can't be reached|broke off/, true],
  "an answer too large": [(send) => send(200, { result: "x".repeat(8 << 20) }), /larger than/, true],
};
test("every refusal is a tool error that says what to do; a ticket's says whether it may be filed", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  for (const [name, [answer, expected, uncertain]] of Object.entries(refusals)) {
    coda.onRequest = (request, response, send) => answer(send, response);
    const before = coda.requests.length;
    for (const tool of ["coda_machines", "coda_file_ticket"]) {
      const reply = await mcp.call(`${tool} ${name}`, tool, { key: "k" });
      assert.equal(reply.result.isError, true, name);
      assert.match(textOf(reply), expected, name);
      const hint = /may have been filed.*coda_workflow_status.*same key/.test(textOf(reply));
      assert.equal(hint, uncertain && tool === "coda_file_ticket", `${tool} ${name}`);
    }
    assert.equal(coda.requests.length, before + 2, `${name}: nothing is repeated by itself`);
  }
});

test("a call that takes more than a minute is given up; a ticket may have been filed", async (t) => {
  const { coda, mcp } = await ready(t, { env: { speed: 60 } });
  await mcp.initialize();
  coda.onCall = () => undefined;
  assert.match(textOf(await mcp.call(1, "coda_machines")), /within 60 seconds.*coda-bot\.mjs net$/);
  assert.match(textOf(await mcp.call(2, "coda_file_ticket", { key: "k" })), /within 60 seconds.*may have been filed.*coda_workflow_status.*same key/);
});

test("nobody listening: the tool points to net, and no ticket was filed", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  coda.server.close();
  coda.server.closeAllConnections();
  const text = textOf(await mcp.call(1, "coda_file_ticket", { key: "k" }));
  assert.match(text, /ECONNREFUSED.*node coda-bot\.mjs net$/);
});

test("a binding that can't be used: no ticket was filed, and none is said to be", async (t) => {
  const { coda, home, mcp } = await ready(t);
  await mcp.initialize();
  const file = path.join(home, "bindings.json");
  const states = { unbound: ['{"version":2,"proxy":null,"records":[]}', /No record is bound/], damaged: ["{", /damaged/], newer: ['{"version":3}', /newer/] };
  for (const [name, [content, said]] of Object.entries(states)) {
    fs.writeFileSync(file, content);
    const { result } = await mcp.call(name, "coda_file_ticket", { key: "k" });
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, said);
    assert.doesNotMatch(result.content[0].text, /may have been filed/, name);
  }
  assert.deepEqual(coda.calls, []);
});

test("256 KiB is the most that is sent, counted in bytes before sending", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  const overhead = Buffer.byteLength(JSON.stringify({ method: "tool", params: { name: "coda_machines", arguments: { a: "" } } }));
  coda.onCall = () => "fits";
  const fits = "字".repeat(Math.floor((256 * 1024 - overhead) / 3));
  assert.equal(textOf(await mcp.call(1, "coda_machines", { a: fits })), "fits");
  const over = await mcp.call(2, "coda_machines", { a: fits + "字" });
  assert.equal(over.result.isError, true);
  assert.match(textOf(over), /at most 262144/);
  assert.equal(coda.calls.length, 1);
});

test("a redirect never carries the token elsewhere", async (t) => {
  const { coda, mcp } = await ready(t);
  const other = await Coda.start(t);
  await mcp.initialize();
  coda.onRequest = (request, response) => response.writeHead(307, { location: `${other.address}/v1/remote-caller` }).end();
  assert.equal((await mcp.call(1, "coda_machines")).result.isError, true);
  assert.equal(other.requests.length, 0);
});

test("rebinding heals a running server; unbinding stops it", async (t) => {
  const { coda, home, mcp } = await ready(t);
  await mcp.initialize();
  coda.tokens.set(RECORD_A, "replaced");
  assert.match(textOf(await mcp.call(1, "coda_machines")), /401/);
  await bound(coda, home, RECORD_A);
  assert.equal((await mcp.call(2, "coda_machines")).result.isError, undefined);
  await run(home, ["unbind"]);
  assert.match(textOf(await mcp.call(3, "coda_machines")), /No record is bound/);
});

test("a store that went bad under a running server is a tool error too", async (t) => {
  const { home, mcp } = await ready(t);
  await mcp.initialize();
  fs.writeFileSync(path.join(home, "bindings.json"), "{");
  assert.match(textOf(await mcp.call(1, "coda_machines")), /damaged.*Move it away/);
  fs.rmSync(home, { recursive: true });
  fs.symlinkSync("/", home);
  const refused = await mcp.call(2, "coda_machines");
  assert.equal(refused.result.isError, true);
  assert.match(textOf(refused), /symbolic link/);
  fs.unlinkSync(home);
});

test("two Bots on one computer: each server uses its own record, and none is guessed", async (t) => {
  const { coda, home, mcp } = await ready(t, { records: [RECORD_A, RECORD_B], args: [RECORD_A] });
  const other = new Mcp(t, home, [RECORD_B]);
  for (const server of [mcp, other]) await server.initialize();
  await Promise.all([mcp.call(1, "coda_machines"), other.call(1, "coda_machines")]);
  assert.deepEqual(coda.calls.map(({ record }) => record).sort(), [RECORD_B, RECORD_A].sort());
  for (const args of [["mcp"], ["mcp", "grok-bot:unknown"]]) {
    const { code, stdout, stderr } = await run(home, args);
    assert.deepEqual([code, stdout], [1, ""]);
    assert.ok(stderr.includes(RECORD_A) && stderr.includes(RECORD_B));
  }
});

test("without a binding the server does not start, and says what to do", async (t) => {
  const { code, stdout, stderr } = await run(newHome(t), ["mcp"]);
  assert.deepEqual([code, stdout], [1, ""]);
  assert.match(stderr, /No record is bound.*Bind/);
});

// ---- the protocol

test("initialize is answered with the version asked for, or the newest of its era", async (t) => {
  const { mcp } = await ready(t);
  for (const version of ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]) {
    const result = await mcp.initialize(version);
    assert.equal(result.protocolVersion, version);
    assert.deepEqual(result.capabilities, { tools: {} });
    assert.equal(result.serverInfo.name, "coda-bot");
    assert.equal(typeof result.instructions, "string");
    assert.equal(result.resultType, undefined);
  }
  for (const version of ["2024-10-07", "2026-07-28", "2099-01-01"]) assert.equal((await mcp.initialize(version)).protocolVersion, "2025-11-25");
  assert.equal(code(await mcp.request(1, "initialize", {})), -32602);
});

test("a request with the metadata of 2026-07-28 is served from that alone", async (t) => {
  const { mcp } = await ready(t);
  const _meta = modernMeta();
  const discovered = (await mcp.request(1, "server/discover", { _meta })).result;
  assert.equal(discovered.resultType, "complete");
  assert.deepEqual(discovered.supportedVersions, ["2026-07-28"]);
  assert.deepEqual(discovered.capabilities, { tools: {} });
  assert.equal(discovered._meta["io.modelcontextprotocol/serverInfo"].name, "coda-bot");
  const listed = (await mcp.request(2, "tools/list", { _meta })).result;
  assert.equal(listed.resultType, "complete");
  for (const { ttlMs, cacheScope } of [discovered, listed]) assert.ok(Number.isInteger(ttlMs) && ttlMs >= 0 && cacheScope === "public");
  const called = (await mcp.request(3, "tools/call", { _meta, name: "coda_machines", arguments: { a: 1 } })).result;
  assert.equal(called.resultType, "complete");
  assert.equal(called.ttlMs, undefined);
  assert.deepEqual(called.structuredContent.params.arguments, { a: 1 }, "the metadata stays here");
  for (const method of ["initialize", "ping", "resources/list", "subscriptions/listen"]) {
    assert.equal(code(await mcp.request(method, method, { _meta })), -32601, method);
  }
});

test("both eras are mixed on one process", async (t) => {
  const { mcp } = await ready(t);
  await mcp.initialize("2025-06-18");
  assert.equal((await mcp.request(1, "tools/list", { _meta: modernMeta() })).result.resultType, "complete");
  assert.equal((await mcp.request(2, "tools/list", { _meta: { progressToken: 1 } })).result.resultType, undefined);
  assert.equal(code(await mcp.request(3, "server/discover")), -32601);
  assert.deepEqual((await mcp.request(4, "ping")).result, {});
});

test("an unknown version of the new era gets the error of that era", async (t) => {
  const { mcp } = await ready(t);
  for (const version of ["2027-01-01", "2025-11-25"]) {
    const { error } = await mcp.request(version, "tools/list", { _meta: modernMeta(version) });
    assert.equal(error.code, -32022);
    assert.deepEqual(error.data, { supported: ["2026-07-28"], requested: version });
  }
  assert.equal(code(await mcp.request(1, "tools/list", { _meta: modernMeta(7) })), -32602);
  const { "io.modelcontextprotocol/clientCapabilities": left, ...without } = modernMeta();
  assert.deepEqual(left, {});
  assert.equal(code(await mcp.request(2, "tools/list", { _meta: without })), -32602);
});

test("malformed requests get the right error, and the next one is answered", async (t) => {
  const { mcp } = await ready(t);
  await mcp.initialize();
  const oddities = [
    ["{", -32700],
    ['"text"', -32600],
    ["null", -32600],
    ["7", -32600],
    ['{"id":"a","method":"ping"}', -32600],
    ['{"jsonrpc":"1.0","id":"a","method":"ping"}', -32600],
    ['{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600],
    ['{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600],
    ['{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}', -32600],
    ['{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600],
    ['{"jsonrpc":"2.0","id":"b","method":7}', -32600, "b"],
    ['{"jsonrpc":"2.0","id":"c","method":"ping","params":[]}', -32602, "c"],
    ['{"jsonrpc":"2.0","id":"d","method":"nope/never"}', -32601, "d"],
    ['{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"name":"nope"}}', -32602, "e"],
    ['{"jsonrpc":"2.0","id":"f","method":"tools/call","params":{}}', -32602, "f"],
    ['{"jsonrpc":"2.0","id":"g","method":"tools/call","params":{"name":"coda_machines","arguments":[]}}', -32602, "g"],
    ['{"jsonrpc":"2.0","id":"h","method":"tools/list","params":{"cursor":"x"}}', -32602, "h"],
    ['{"jsonrpc":"2.0","id":"i","method":"toString"}', -32601, "i"],
  ];
  for (const [line, expected, id] of oddities) {
    const count = mcp.messages.length;
    mcp.write(line + "\n");
    const after = await mcp.request(`after ${line}`, "ping");
    assert.deepEqual(after.result, {});
    // Answers may overtake each other.
    const answer = await mcp.next((message) => message.error && mcp.messages.indexOf(message) >= count);
    assert.equal(code(answer), expected, line);
    assert.deepEqual([answer.id, Object.hasOwn(answer, "id"), mcp.messages.length], [id, id !== undefined, count + 2], line);
  }
  const count = mcp.messages.length;
  for (const quiet of ["", "  ", "\r", '{"jsonrpc":"2.0","id":1,"result":{}}', '{"jsonrpc":"2.0","id":1,"error":{}}', '{"jsonrpc":"2.0","method":"notifications/nope"}']) {
    mcp.write(quiet + "\n");
  }
  mcp.write('{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r\n');
  await mcp.next(({ id }) => id === "crlf");
  assert.equal(mcp.messages.length, count + 1);
});

test("ids keep their type; one that is still running is not taken twice", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  const held = [];
  coda.onCall = (call, response, send) => void held.push(() => send(200, { result: call.params.arguments.n }));
  mcp.send({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "coda_machines", arguments: { n: "number" } } });
  mcp.send({ jsonrpc: "2.0", id: "1", method: "tools/call", params: { name: "coda_machines", arguments: { n: "string" } } });
  mcp.send({ jsonrpc: "2.0", id: 1, method: "ping" });
  const refused = await mcp.next(({ error }) => error);
  assert.deepEqual([refused.id, refused.error.code], [1, -32600]);
  const answers = [1, "1"].map((id) => mcp.next((message) => message.id === id && message.result));
  while (held.length < 2) await new Promise(setImmediate);
  for (const answer of held) answer();
  assert.deepEqual((await Promise.all(answers)).map(textOf), ["number", "string"]);
});

test("batches: answered under 2025-03-26, refused under the others", async (t) => {
  const { coda, mcp } = await ready(t);
  const batch = [
    { jsonrpc: "2.0", id: "b1", method: "ping" },
    { jsonrpc: "2.0", method: "notifications/nope" },
    { jsonrpc: "2.0", id: "b2", method: "tools/call", params: { name: "coda_machines" } },
    { jsonrpc: "2.0", id: "b3", method: "nope" },
    7,
  ];
  mcp.send(batch);
  assert.equal(code(await mcp.next(({ error }) => error)), -32600, "before initialize");
  await mcp.initialize("2025-03-26");
  coda.onCall = () => "from the batch";
  mcp.send(batch);
  const answer = await mcp.next(Array.isArray);
  assert.deepEqual(answer.map(({ id }) => id), ["b1", "b2", "b3", undefined]);
  assert.equal(textOf(answer[1]), "from the batch");
  assert.deepEqual(answer.slice(2).map(code), [-32601, -32600]);

  let count = mcp.messages.length;
  mcp.send([{ jsonrpc: "2.0", method: "notifications/nope" }]);
  mcp.send([]);
  await mcp.request("after", "ping");
  const empty = await mcp.next((message) => message.error && mcp.messages.indexOf(message) >= count);
  assert.deepEqual([code(empty), mcp.messages.length], [-32600, count + 2], "nothing for notifications, an error for an empty batch");

  for (const version of ["2024-11-05", "2025-06-18", "2025-11-25"]) {
    await mcp.initialize(version);
    count = mcp.messages.length;
    mcp.send(batch);
    await mcp.request(`after ${version}`, "ping");
    const refused = await mcp.next((message) => message.error && mcp.messages.indexOf(message) >= count);
    assert.deepEqual([code(refused), mcp.messages.length], [-32600, count + 2], version);
  }
});

test("a cancelled call is dropped at Coda's door, and nothing more is said about it", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  let asked;
  const arrived = new Promise((resolve) => (asked = resolve));
  coda.onCall = (call, response) => void asked(response);
  mcp.send({ jsonrpc: "2.0", id: "gone", method: "tools/call", params: { name: "coda_file_ticket", arguments: { key: "k" } } });
  const response = await arrived;
  const closed = new Promise((resolve) => response.on("close", resolve));
  mcp.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "unknown" } });
  mcp.send({ jsonrpc: "2.0", method: "notifications/cancelled" });
  mcp.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: "gone", reason: "enough" } });
  await closed;
  coda.onCall = () => "free again";
  assert.equal(textOf(await mcp.call("next", "coda_machines")), "free again");
  const { code: exit } = await mcp.end();
  assert.equal(exit, 0);
  assert.ok(!mcp.messages.some(({ id }) => id === "gone"));
});

// ---- bytes, pipes, ends

test("Chinese and emoji arrive whole when every byte comes alone", async (t) => {
  const { mcp } = await ready(t);
  await mcp.initialize();
  const text = "你好🦀 é 线程";
  const line = JSON.stringify({ jsonrpc: "2.0", id: "字", method: "tools/call", params: { name: "coda_machines", arguments: { text } } }) + "\n";
  mcp.child.stdin.setNoDelay?.(true);
  for (const byte of Buffer.from(line)) await new Promise((resolve) => mcp.child.stdin.write(Buffer.of(byte), resolve));
  const { result } = await mcp.next(({ id }) => id === "字");
  assert.equal(result.structuredContent.params.arguments.text, text);
});

test("bytes that are no UTF-8 are refused, not bent", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  mcp.write(Buffer.concat([Buffer.from('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"coda_machines","arguments":{"a":"'), Buffer.of(0xff, 0xe4), Buffer.from('"}}}\n')]));
  assert.equal(code(await mcp.next(({ error }) => error)), -32700);
  assert.equal(coda.calls.length, 0);
});

test("a line of 5 MiB is refused and skipped; one of 4 MiB is read", async (t) => {
  const { mcp } = await ready(t);
  await mcp.initialize();
  const ping = (id, size) => {
    const line = { jsonrpc: "2.0", id, method: "ping", params: { pad: "" } };
    line.params.pad = "x".repeat(size - JSON.stringify(line).length);
    return JSON.stringify(line) + "\n";
  };
  mcp.write(ping("huge", 5 << 20) + ping("fits", 4 << 20) + ping("over", (4 << 20) + 1) + ping("small", 100));
  await mcp.next(({ id }) => id === "small");
  assert.deepEqual(mcp.messages.slice(1).map(({ id, error }) => id ?? error.code).sort(), [-32600, -32600, "fits", "small"]);
});

test("twenty calls side by side, one of which hangs: the others answer, the end does not wait for it long", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  coda.onCall = ({ params }) => (params.arguments.n === 7 ? undefined : `answer ${params.arguments.n}`);
  const numbers = Array.from({ length: 20 }, (_, n) => n);
  for (const n of numbers) mcp.send({ jsonrpc: "2.0", id: n, method: "tools/call", params: { name: "coda_machines", arguments: { n } } });
  const answers = await Promise.all(numbers.filter((n) => n !== 7).map((n) => mcp.next(({ id }) => id === n)));
  for (const answer of answers) assert.equal(textOf(answer), `answer ${answer.id}`);
  assert.equal(coda.calls.length, 20);
  const begun = performance.now();
  const { code: exit } = await mcp.end();
  const took = performance.now() - begun;
  assert.equal(exit, 0);
  assert.ok(took > 4_500 && took < 15_000, `${took} ms`);
  assert.ok(!mcp.messages.some(({ id }) => id === 7));
});

test("the end of stdin waits for an answer that comes in time", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  let answer;
  const asked = new Promise((resolve) => (coda.onCall = (call, response, send) => void resolve((answer = () => send(200, { result: "late but here" })))));
  mcp.send({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "coda_machines" } });
  await asked;
  const ended = mcp.end();
  answer();
  assert.equal((await ended).code, 0);
  assert.equal(textOf(mcp.messages.at(-1)), "late but here");
});

test("nothing running: the end of stdin ends the process at once; a last line needs no newline", async (t) => {
  const { mcp } = await ready(t);
  await mcp.initialize();
  mcp.write('{"jsonrpc":"2.0","id":"last","method":"ping"}');
  const begun = performance.now();
  const { code: exit, stderr } = await mcp.end();
  assert.deepEqual([exit, stderr], [0, ""]);
  assert.ok(performance.now() - begun < 4_000);
  assert.equal(mcp.messages.at(-1).id, "last");
});

test("a client that closes stdin and reads no more is not waited for long", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  coda.onCall = () => "x".repeat(4 * 1024 * 1024); // far more than a pipe holds
  mcp.child.stdout.pause();
  mcp.send({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "coda_machines" } });
  const exited = once(mcp.child, "exit");
  mcp.child.stdin.end();
  assert.deepEqual(await Promise.race([exited, new Promise((resolve) => setTimeout(resolve, 20_000, "still there"))]), [0, null]);
  mcp.child.stdout.destroy();
});

test("SIGTERM in the middle of a call ends the process at once", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  const asked = new Promise((resolve) => (coda.onCall = (call, response) => void resolve(response)));
  mcp.send({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "coda_machines" } });
  const response = await asked;
  const closed = new Promise((resolve) => response.on("close", resolve));
  const begun = performance.now();
  mcp.child.kill("SIGTERM");
  const { signal, stderr } = await mcp.child.done;
  await closed;
  assert.deepEqual([signal, stderr], ["SIGTERM", ""]);
  assert.ok(performance.now() - begun < 4_000);
});

test("a client that stops reading ends the process", async (t) => {
  const { coda, mcp } = await ready(t);
  await mcp.initialize();
  const asked = new Promise((resolve) => (coda.onCall = (call, response) => void resolve(response)));
  mcp.send({ jsonrpc: "2.0", id: "hangs", method: "tools/call", params: { name: "coda_machines" } });
  await asked;
  mcp.child.stdout.destroy();
  mcp.send({ jsonrpc: "2.0", id: 2, method: "ping" });
  const { code: exit, stderr } = await mcp.child.done;
  assert.deepEqual([exit, stderr], [0, ""]);
});
