import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { Coda, issuedTokens } from "./support/coda.mjs";
import { RECORD_A, RECORD_B, bound, newHome, run, start, temporaryFolder } from "./support/run.mjs";

const stored = (home) => JSON.parse(fs.readFileSync(path.join(home, "bindings.json"), "utf8"));

test("bind stores address, token and record, and says how to go on", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  const { stdout } = await bound(coda, home);
  assert.match(stdout, /bound: grok-bot:3f6c0a:bot%20one/);
  assert.match(stdout, /mcp grok-bot:3f6c0a:bot%20one\n/);
  const [entry] = stored(home).records;
  assert.deepEqual([entry.record, entry.address, entry.token], [RECORD_A, coda.address, coda.tokens.get(RECORD_A)]);
  const [{ url, body, headers }] = coda.requests;
  assert.equal(url, "/v1/remote-caller/bind");
  assert.deepEqual(Object.keys(JSON.parse(body)), ["code"]);
  assert.equal(headers.authorization, undefined);
});

test("the default home is ~/.coda-bot", async (t) => {
  const coda = await Coda.start(t);
  const folder = temporaryFolder(t);
  const { code } = await run("", ["bind", coda.address, coda.issueCode(RECORD_A)], { HOME: folder });
  assert.equal(code, 0);
  assert.equal(stored(path.join(folder, ".coda-bot")).records.length, 1);
});

test("an address keeps its path and loses its last slash", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  const { code, stderr } = await run(home, ["bind", `${coda.address}//`, coda.issueCode(RECORD_A)]);
  assert.equal(code, 0, stderr);
  assert.equal(stored(home).records[0].address, coda.address);
});

test("a code works once and for ten minutes", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  const code = coda.issueCode(RECORD_A);
  coda.now += 10 * 60_000 - 1;
  assert.equal((await run(home, ["bind", coda.address, code])).code, 0);
  const again = await run(home, ["bind", coda.address, code]);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /works once and for 10 minutes.*Bind/);

  const late = coda.issueCode(RECORD_A);
  coda.now += 10 * 60_000;
  const before = stored(home);
  assert.equal((await run(home, ["bind", coda.address, late])).code, 1);
  assert.deepEqual(stored(home), before, "a refused bind changes nothing");
});

test("the 31st bind of a minute is refused without using up its code", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  coda.bindTimes = Array.from({ length: 30 }, () => coda.now);
  const code = coda.issueCode(RECORD_A);
  const refused = await run(home, ["bind", coda.address, code]);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /429.*minute.*same command.*not used up/);
  coda.now += 60_001;
  assert.equal((await run(home, ["bind", coda.address, code])).code, 0);
});

test("two Bots: rebinding one replaces its token and leaves the other", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  await bound(coda, home, RECORD_A);
  await bound(coda, home, RECORD_B);
  const [, kept] = stored(home).records;
  const old = coda.tokens.get(RECORD_A);
  await bound(coda, home, RECORD_A);
  const records = stored(home).records;
  assert.equal(records.length, 2);
  assert.deepEqual(records.find(({ record }) => record === RECORD_B), kept);
  assert.equal(records.find(({ record }) => record === RECORD_A).token, coda.tokens.get(RECORD_A));
  assert.notEqual(coda.tokens.get(RECORD_A), old);
});

test("binds at the same moment lose nothing", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  const names = [RECORD_A, RECORD_B, "r3", "r4"];
  const results = await Promise.all(names.map((record) => run(home, ["bind", coda.address, coda.issueCode(record)])));
  for (const { code, stderr } of results) assert.equal(code, 0, stderr);
  const entries = stored(home).records.map(({ record, token }) => [record, token]).sort();
  assert.deepEqual(entries, [...coda.tokens].sort());
  assert.deepEqual(fs.readdirSync(home), ["bindings.json"]);
});

test("two binds of one record at the same moment keep the token that is valid", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  await Promise.all([1, 2, 3].map(() => bound(coda, home, RECORD_A)));
  assert.equal(stored(home).records[0].token, coda.tokens.get(RECORD_A));
});

for (const address of [
  "ftp://127.0.0.1:1",
  "127.0.0.1:1",
  "http://user:secret@127.0.0.1:1",
  "http://user@127.0.0.1:1",
  "http://127.0.0.1:1/?a=1",
  "http://127.0.0.1:1/?",
  "http://127.0.0.1:1/#a",
  "http:127.0.0.1:1",
  "http:\\\\127.0.0.1:1",
  "http://127.0.0.1:1/a b",
  "http://",
  "",
]) {
  test(`the address ${JSON.stringify(address)} is refused`, async (t) => {
    const home = newHome(t);
    const { code, stderr } = await run(home, ["bind", address, "code"]);
    assert.equal(code, 1);
    assert.match(stderr, /must be http:\/\/ or https:\/\//);
    assert.ok(!stderr.includes("secret"));
    assert.ok(!fs.existsSync(home));
  });
}

test("a malformed code is refused before anything is asked", async (t) => {
  const coda = await Coda.start(t);
  for (const code of ["a b", "$(id)", "", "码", "a".repeat(513)]) {
    const { code: exit, stderr } = await run(newHome(t), ["bind", coda.address, code]);
    assert.equal(exit, 1);
    assert.match(stderr, /not a bind code/);
  }
  assert.equal(coda.requests.length, 0);
});

const answers = {
  "a redirect": [(request, response) => response.writeHead(307, { location: "/elsewhere" }).end(), /redirect \(307\).*not followed/],
  "no JSON": [(request, response) => response.end("<html>"), /no JSON object/],
  "an array": [(request, response) => response.end("[]"), /no JSON object/],
  "no token": [(request, response, send) => send(200, { record: RECORD_A }), /no token and record/],
  "a token that fits no header": [(request, response, send) => send(200, { record: RECORD_A, token: "a\r\nb" }), /no token and record/],
  "a token that is part of every word": [(request, response, send) => send(200, { record: RECORD_A, token: "e" }), /no token and record/],
  "a token that is a number": [(request, response, send) => send(200, { record: RECORD_A, token: 7 }), /no token and record/],
  "a record with a line break": [(request, response, send) => send(200, { record: "a\nb", token: "abc" }), /no token and record/],
  "404": [(request, response, send) => send(404, {}), /no remote entry \(404\)/],
  "500": [(request, response, send) => send(500, {}), /answers 500/],
  "nothing, and hangs up": [(request) => request.socket.destroy(), /can't be reached|broke off/],
  "half an answer": [
    (request, response) => {
      response.writeHead(200, { "content-length": 100 });
      response.write('{"token":');
      setImmediate(() => request.socket.destroy());
    },
    /broke off.*coda-bot\.mjs net/,
  ],
  "more than fits": [
    (request, response) => {
      const part = Buffer.alloc(1 << 20, "a");
      const pump = () => {
        while (!response.destroyed && response.write(part));
      };
      response.on("drain", pump);
      pump();
    },
    /larger than/,
  ],
};
for (const [name, [onRequest, expected]] of Object.entries(answers)) {
  test(`bind told apart: Coda answers ${name}`, async (t) => {
    const coda = await Coda.start(t);
    coda.onRequest = onRequest;
    const home = newHome(t);
    const { code, stderr, stdout } = await run(home, ["bind", coda.address, "code"]);
    assert.equal(code, 1);
    assert.match(stderr, expected);
    assert.equal(stdout, "");
    assert.equal(coda.requests.length, 1, "nothing is asked twice");
    assert.ok(!fs.existsSync(path.join(home, "bindings.json")));
  });
}

test("an answer that never comes, or never ends, is given up", async (t) => {
  for (const begin of [false, true]) {
    const coda = await Coda.start(t);
    coda.onRequest = (request, response) => begin && response.write(" ");
    const { code, stderr } = await run(newHome(t), ["bind", coda.address, "code"], { speed: 200 });
    assert.equal(code, 1);
    assert.match(stderr, /within 60 seconds.*coda-bot\.mjs net/);
  }
});

test("nobody listening points to net", async (t) => {
  const coda = await Coda.start(t);
  coda.server.close();
  const { code, stderr } = await run(newHome(t), ["bind", coda.address, "code"]);
  assert.equal(code, 1);
  assert.match(stderr, /can't be reached \(ECONNREFUSED\).*coda-bot\.mjs net/);
});

test("status asks every record and never shows a token", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  assert.match((await run(home, ["status"])).stderr, /No record is bound/);
  await bound(coda, home, RECORD_A);
  await bound(coda, home, RECORD_B);
  const good = await run(home, ["status"]);
  assert.equal(good.code, 0);
  assert.equal(good.stdout.match(/^ {2}answers$/gm).length, 2);
  assert.deepEqual(coda.calls[0], { record: RECORD_A, method: "tool", params: { name: "coda_machines", arguments: {} } });

  coda.tokens.delete(RECORD_A);
  const mixed = await run(home, ["status"]);
  assert.equal(mixed.code, 1);
  assert.match(mixed.stdout, /bot%20one\n.*\n {2}FAIL .*401/);
  assert.match(mixed.stdout, /bot-%E4%BA%8C\n.*\n {2}answers/);
});

test("a token that Coda echoes back is not shown", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  await bound(coda, home);
  coda.onCall = (call, response, send) => void send(502, { code: "agent_error", message: `bad ${response.req.headers.authorization}` });
  const { stdout } = await run(home, ["status"]);
  assert.match(stdout, /bad Bearer \[token\]/);
  assert.ok(issuedTokens.size > 0);
});

test("unbind forgets one record", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  await bound(coda, home, RECORD_A);
  await bound(coda, home, RECORD_B);
  const which = await run(home, ["unbind"]);
  assert.equal(which.code, 1);
  assert.match(which.stderr, /name one:\n.*bot%20one\n.*bot-%E4%BA%8C/);
  assert.equal((await run(home, ["unbind", "unknown"])).code, 1);
  assert.equal((await run(home, ["unbind", RECORD_B])).code, 0);
  assert.equal((await run(home, ["unbind"])).code, 0);
  assert.deepEqual(stored(home).records, []);
});

test("usage: help ends well, a wrong command does not", async (t) => {
  const home = newHome(t);
  for (const args of [["--help"], ["-h"], ["help"]]) {
    const { code, stdout } = await run(home, args);
    assert.equal(code, 0);
    assert.match(stdout, /usage:/);
  }
  for (const args of [[], ["nope"], ["toString"], ["bind"], ["bind", "http://127.0.0.1"], ["net", "x"], ["mcp", "a", "b"]]) {
    const { code, stderr } = await run(home, args);
    assert.equal(code, 2);
    assert.match(stderr, /usage:/);
  }
});

test("output into a closed pipe ends the process quietly", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  await bound(coda, home);
  let answer;
  const asked = new Promise((resolve) => (coda.onCall = () => new Promise((done) => resolve((answer = done)))));
  const child = start(home, ["status"]);
  await asked;
  child.stdout.destroy();
  answer({});
  const { code, stderr } = await child.done;
  assert.equal(code, 0);
  assert.equal(stderr, "");
});
