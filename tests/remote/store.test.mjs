import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { Coda } from "./support/coda.mjs";
import { Mcp, RECORD_A, RECORD_B, bound, newHome, run, start, temporaryFolder } from "./support/run.mjs";

const file = (home) => path.join(home, "bindings.json");
const mode = (name) => (fs.statSync(name).mode & 0o7777).toString(8);

test("folder and files are private at every moment of many saves, whatever the umask", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  const stop = new SharedArrayBuffer(4);
  const worker = new Worker(new URL("./support/watch-modes.mjs", import.meta.url), { workerData: { folder: home, stop } });
  await once(worker, "message");
  const umask = process.umask(0);
  try {
    for (let round = 0; round < 20; round += 1) {
      coda.now += 60_001;
      await Promise.all([RECORD_A, RECORD_B].map((record) => bound(coda, home, record)));
      await run(home, ["unbind", RECORD_B]);
    }
  } finally {
    process.umask(umask);
  }
  Atomics.store(new Int32Array(stop), 0, 1);
  const [{ seen, looks }] = await once(worker, "message");
  assert.ok(looks > 100, `${looks} looks`);
  assert.ok(seen.includes("bindings.json 600"));
  // The lock is a link to nowhere and holds no secret; a link's own mode means nothing.
  for (const each of seen) assert.match(each, /^folder 700$|^bindings\.json\S* 600$|^lock\S* 777$/);
});

test("a store that became too wide is narrowed when used", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  await bound(coda, home);
  fs.chmodSync(home, 0o755);
  fs.chmodSync(file(home), 0o644);
  assert.equal((await run(home, ["status"])).code, 0);
  assert.deepEqual([mode(home), mode(file(home))], ["700", "600"]);
});

test("the token is in the store alone: no other file, argument or environment", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  await bound(coda, home);
  const token = coda.tokens.get(RECORD_A);
  const mcp = new Mcp(t, home);
  await mcp.initialize();
  await mcp.call(1, "coda_machines");
  for (const name of ["cmdline", "environ"]) {
    const proc = `/proc/${mcp.child.pid}/${name}`;
    if (fs.existsSync(proc)) assert.ok(!fs.readFileSync(proc, "latin1").includes(token));
  }
  await mcp.end();
  const around = fs.readdirSync(path.dirname(home), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  assert.deepEqual(around.map(({ name }) => name), ["bindings.json"]);
});

test("a symlinked store is refused, for reading and for writing", async (t) => {
  const coda = await Coda.start(t);
  const elsewhere = newHome(t);
  await bound(coda, elsewhere);
  const before = fs.readFileSync(file(elsewhere), "utf8");

  const linkedFolder = path.join(temporaryFolder(t), "link");
  fs.symlinkSync(elsewhere, linkedFolder);
  const linkedFile = newHome(t);
  fs.mkdirSync(linkedFile, { mode: 0o700 });
  fs.symlinkSync(file(elsewhere), file(linkedFile));
  const dangling = newHome(t);
  fs.symlinkSync(path.join(temporaryFolder(t), "nowhere"), dangling);

  for (const home of [linkedFolder, linkedFile, dangling]) {
    const code = coda.issueCode(RECORD_B);
    for (const args of [["status"], ["mcp"], ["unbind"], ["bind", coda.address, code]]) {
      const result = await run(home, args);
      assert.equal(result.code, 1, args[0]);
      assert.match(result.stderr, /symbolic link.*refusing/);
    }
    assert.ok(coda.codes.has(code), "the code is not spent");
  }
  assert.equal(fs.readFileSync(file(elsewhere), "utf8"), before);
});

test("a folder or a pipe in the store's place is refused, and blocks nothing", async (t) => {
  for (const make of [(name) => fs.mkdirSync(name), (name) => spawn("mkfifo", [name])]) {
    const home = newHome(t);
    fs.mkdirSync(home, { mode: 0o700 });
    const made = make(file(home));
    if (made?.on) await once(made, "close");
    assert.match((await run(home, ["status"])).stderr, /not what it should be/);
  }
});

test("an older layout: a clear line, and bind begins anew", async (t) => {
  const coda = await Coda.start(t);
  for (const old of ['{"address":"http://127.0.0.1:1","token":"t","session":"s"}', '{"version":1,"records":[]}', "{}"]) {
    const home = newHome(t);
    fs.mkdirSync(home, { mode: 0o700 });
    fs.writeFileSync(file(home), old, { mode: 0o600 });
    for (const command of ["status", "mcp", "unbind"]) {
      const { code, stderr } = await run(home, [command]);
      assert.equal(code, 1);
      assert.match(stderr, /older coda-bot\.mjs; binding must be done again.*Bind/);
    }
    assert.match((await bound(coda, home)).stderr, /older coda-bot\.mjs are replaced/);
    assert.equal((await run(home, ["status"])).code, 0);
  }
});

test("a damaged or newer store is left as it is, and no code is spent", async (t) => {
  const coda = await Coda.start(t);
  for (const [text, expected] of [
    ['{"version":2,', /damaged.*Move it away/],
    ['{"version":2,"records":[{"record":"r"}]}', /damaged/],
    ['{"version":2}', /damaged/],
    ["[]", /damaged/],
    ["", /damaged/],
    ['{"version":3,"records":[]}', /newer coda-bot\.mjs/],
  ]) {
    const home = newHome(t);
    fs.mkdirSync(home, { mode: 0o700 });
    fs.writeFileSync(file(home), text, { mode: 0o600 });
    const code = coda.issueCode(RECORD_A);
    for (const args of [["status"], ["bind", coda.address, code]]) {
      const result = await run(home, args);
      assert.equal(result.code, 1);
      assert.match(result.stderr, expected);
    }
    assert.ok(coda.codes.has(code));
    assert.equal(fs.readFileSync(file(home), "utf8"), text);
  }
});

test("a record named like a property of objects is a record like any other", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  await bound(coda, home, "__proto__");
  await bound(coda, home, "constructor");
  assert.equal((await run(home, ["status"])).stdout.match(/answers/g).length, 2);
});

test("a bind that dies with the lock does not block the next for ever", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  const asked = new Promise((resolve) => (coda.onRequest = resolve));
  const first = start(home, ["bind", coda.address, "code"]);
  await asked;
  assert.ok(fs.readdirSync(home).includes("lock"));
  first.kill("SIGKILL");
  await first.done;
  fs.writeFileSync(`${file(home)}.tmp`, "left by a killed save");
  coda.onRequest = undefined;
  await Promise.all([RECORD_A, RECORD_B].map((record) => bound(coda, home, record)));
  assert.deepEqual(fs.readdirSync(home), ["bindings.json"]);
  assert.equal(JSON.parse(fs.readFileSync(file(home), "utf8")).records.length, 2);
});

test("a lock whose holder's number was taken by another process goes out of date", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  fs.mkdirSync(home, { mode: 0o700 });
  const lock = path.join(home, "lock");
  fs.symlinkSync(`${process.pid}-x`, lock);
  const old = new Date(Date.now() - 181_000);
  fs.lutimesSync(lock, old, old);
  await bound(coda, home);
});

test("a bind waits for a live one, and saves nothing once its own lock was taken away", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  let answerFirst;
  const asked = new Promise((resolve) => {
    coda.onRequest = (request, response, send) => {
      coda.onRequest = undefined;
      answerFirst = () => send(200, { token: "taken-away", record: RECORD_A });
      resolve();
    };
  });
  const first = start(home, ["bind", coda.address, "code"]);
  await asked;
  const second = start(home, ["bind", coda.address, coda.issueCode(RECORD_B)]);
  await once(second.stderr, "data");
  assert.match(second.output.stderr, /waiting for another/);
  assert.equal(coda.requests.length, 1);
  fs.unlinkSync(path.join(home, "lock"));
  assert.equal((await second.done).code, 0);
  answerFirst();
  const { code, stderr } = await first.done;
  assert.equal(code, 1);
  assert.match(stderr, /lost the lock.*nothing was saved/);
  assert.deepEqual(JSON.parse(fs.readFileSync(file(home), "utf8")).records.map(({ record }) => record), [RECORD_B]);
});

test("a save that fails leaves no copy of the token behind, and says that the code is spent", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  coda.onRequest = (request, response, send) => {
    coda.onRequest = undefined;
    fs.mkdirSync(file(home)); // nothing can be renamed over a folder
    send(200, { token: "can-not-be-saved", record: RECORD_A });
  };
  const { code, stderr } = await run(home, ["bind", coda.address, "code"]);
  assert.equal(code, 1);
  assert.match(stderr, /could not be saved.*Bind/);
  assert.deepEqual(fs.readdirSync(home), ["bindings.json"]);
});
