import assert from "node:assert/strict";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { test } from "node:test";
import { generate } from "selfsigned";
import { Coda } from "./support/coda.mjs";
import { Mcp, RECORD_A, bound, newHome, run, temporaryFolder } from "./support/run.mjs";
import { Proxy, fakeTailscale, state, userspace } from "./support/tailnet.mjs";

const stored = (home) => JSON.parse(fs.readFileSync(path.join(home, "bindings.json"), "utf8"));
const net = (t, home, tailscale, env) => run(home, ["net"], { PATH: fakeTailscale(t, tailscale), ...env });

test("not installed: the command that installs it", async (t) => {
  const home = newHome(t);
  const { code, stdout } = await run(home, ["net"], { PATH: temporaryFolder(t) });
  assert.equal(code, 1);
  assert.match(stdout, /^FAIL {2}tailnet client: .*not installed\n +next: curl .*tailscale.*\n +then: node coda-bot\.mjs net\n$/);
  assert.ok(!fs.existsSync(home), "nothing is remembered");
});

const failures = {
  "the daemon is not running": [{ status: "failed to connect to local tailscaled", exit: 1 }, /FAIL {2}daemon: .*\n +next: .*(systemctl start tailscaled|tailscaled --tun=userspace)/],
  "the daemon's answer is odd": [{ status: "[]" }, /FAIL {2}daemon/],
  "signed out": [{ status: state("NeedsLogin", { Self: null }) }, /FAIL {2}signed in: no\n +next: .*tailscale up .*link/],
  "waiting for approval": [{ status: state("NeedsMachineAuth") }, /FAIL {2}signed in: .*approval\n +next: ask the user/],
  "stopped": [{ status: state("Stopped") }, /FAIL {2}signed in: .*switched off\n +next: .*tailscale up\n/],
  "starting": [{ status: state("Starting") }, /FAIL {2}signed in: .*Starting.*\n +next: wait/],
  "a state of tomorrow": [{ status: state("Dreaming\u001b[31m") }, /FAIL {2}signed in: .*Dreaming \[31m/],
  "running without an address": [{ status: state("Running", { Self: {} }) }, /FAIL {2}own address/],
  "userspace mode without a proxy": [{ status: userspace() }, /FAIL {2}path: .*no HTTP proxy answers.*\n +next: .*tailscaled --tun=userspace-networking --outbound-http-proxy-listen=localhost:1055/],
  "a device that is not on this computer": [{ status: state("Running", { Self: { TailscaleIPs: ["100.64.7.7"] } }) }, /FAIL {2}path/],
};
for (const [name, [tailscale, expected]] of Object.entries(failures)) {
  test(`${name}: the step, and what to do next`, async (t) => {
    const home = newHome(t);
    const { code, stdout, stderr } = await net(t, home, tailscale);
    assert.equal(code, 1);
    assert.match(stdout, expected);
    assert.match(stdout, /^ok {4}tailnet client: installed, 1\.98\.0\n/);
    assert.match(stdout, /then: node coda-bot\.mjs net\n$/);
    assert.equal(stdout.match(/FAIL/g).length, 1);
    assert.equal(stderr, "");
    assert.ok(!fs.existsSync(home));
  });
}

test("running with a device: a line a step, the direct path, exit 0", async (t) => {
  const home = newHome(t);
  const { code, stdout } = await net(t, home, { status: state("Running") });
  assert.equal(code, 0);
  assert.deepEqual(stdout.split("\n").map((line) => line.slice(0, 16).trimEnd()), ["ok    tailnet cl", "ok    daemon: ru", "ok    signed in:", "ok    own addres", "ok    path: dire", ""]);
});

test("a bound Coda is tried too", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  await bound(coda, home);
  const good = await net(t, home, { status: state("Running") });
  assert.equal(good.code, 0);
  assert.match(good.stdout, /ok {4}Coda: http:\/\/127\.0\.0\.1:\d+ answers/);
  assert.equal(coda.requests.at(-1).headers.authorization, undefined, "the probe carries no token");
  coda.server.close();
  coda.server.closeAllConnections();
  const bad = await net(t, home, { status: state("Running") });
  assert.equal(bad.code, 1);
  assert.match(bad.stdout, /ok {4}path: direct\nFAIL {2}Coda: .* does not answer\n +next: tailscale ping 127\.0\.0\.1/);
});

test("a command line that hangs is given up", async (t) => {
  const { code, stdout } = await net(t, newHome(t), { script: '[ "$1" = version ] && exit 0\nexec /bin/sleep 60' }, { speed: 20 });
  assert.equal(code, 1);
  assert.match(stdout, /installed, version unknown\nFAIL {2}daemon: .*does not answer/);
});

for (const variable of ["HTTP_PROXY", "all_proxy"]) {
  test(`userspace mode with a proxy (${variable}): found, remembered, and used from then on`, async (t) => {
    const coda = await Coda.start(t);
    const proxy = await Proxy.start(t);
    const host = "coda-host.tailnet.example:8080"; // no such name outside the proxy
    proxy.routes.set(host, coda.port);
    const home = newHome(t);
    const found = await net(t, home, { status: userspace() }, { [variable]: `${proxy.address}/` });
    assert.equal(found.code, 0);
    assert.match(found.stdout, new RegExp(`ok    path: through the userspace proxy ${proxy.address}\n$`));
    assert.deepEqual(proxy.seen, [["connect", "100.64.7.7:80"]]);
    assert.equal(stored(home).proxy, proxy.address);

    const bind = await run(home, ["bind", `http://${host}`, coda.issueCode(RECORD_A)]);
    assert.equal(bind.code, 0, bind.stderr);
    assert.match((await run(home, ["status"])).stdout, /answers/);
    const again = await net(t, home, { status: userspace() });
    assert.equal(again.code, 0, again.stdout);
    assert.match(again.stdout, /ok {4}Coda: http:\/\/coda-host\.tailnet\.example:8080 answers/);
    const mcp = new Mcp(t, home);
    await mcp.initialize();
    coda.onCall = ({ params }) => params;
    assert.equal((await mcp.call(1, "coda_machines", { 机器: "🦀" })).result.structuredContent.arguments.机器, "🦀");
    assert.ok(proxy.seen.filter(([kind, target]) => kind === "absolute" && target === host).length >= 4);
    assert.equal(coda.requests.at(-1).headers.host, host);

    // The proxy's own refusal is none of Coda's.
    proxy.routes.clear();
    const lost = await mcp.call(2, "coda_file_ticket", { key: "k" });
    assert.match(lost.result.content[0].text, /through http:\/\/127.*502.*coda-bot\.mjs net/);
    proxy.server.close();
    proxy.server.closeAllConnections();
    const gone = await mcp.call(3, "coda_machines");
    assert.match(gone.result.content[0].text, /ECONNREFUSED.*coda-bot\.mjs net/);
  });
}

test("https goes through a tunnel of the proxy, and the certificate is checked", async (t) => {
  const host = "coda-host.tailnet.example";
  const pems = await generate([{ name: "commonName", value: host }], {
    keyType: "ec",
    extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: host }] }],
  });
  const coda = await Coda.start(t, { tls: { key: pems.private, cert: pems.cert } });
  const proxy = await Proxy.start(t);
  proxy.routes.set(`${host}:443`, coda.port);
  const home = newHome(t);
  assert.equal((await net(t, home, { status: userspace() }, { HTTP_PROXY: proxy.address })).code, 0);
  const authority = path.join(temporaryFolder(t), "ca.pem");
  fs.writeFileSync(authority, pems.cert);
  const code = coda.issueCode(RECORD_A);

  const stranger = await run(home, ["bind", `https://${host}`, code]);
  assert.equal(stranger.code, 1);
  assert.match(stranger.stderr, /can't be reached .*(CERT|SIGN)/);
  assert.ok(coda.codes.has(code));
  const trusted = { NODE_EXTRA_CA_CERTS: authority };
  const bind = await run(home, ["bind", `https://${host}`, code], trusted);
  assert.equal(bind.code, 0, bind.stderr);
  assert.match((await run(home, ["status"], trusted)).stdout, /answers/);
  assert.deepEqual([...new Set(proxy.seen.map(String))], ["connect,100.64.7.7:80", `connect,${host}:443`]);
  proxy.routes.clear();
  assert.match((await run(home, ["status"], trusted)).stdout, /FAIL .*through http:\/\/127.*proxy answered 502.*net/);
});

test("back on a device, the direct path is remembered", async (t) => {
  const proxy = await Proxy.start(t);
  const home = newHome(t);
  await net(t, home, { status: userspace() }, { HTTP_PROXY: proxy.address });
  await net(t, home, { status: state("Running") });
  assert.equal(stored(home).proxy, null);
});

test("a web server is no proxy, and only one on this computer is tried", async (t) => {
  const server = http.createServer((request, response) => response.end("hello")).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  const notFound = http.createServer().listen(0, "127.0.0.1");
  notFound.on("connect", (request, socket) => socket.end("HTTP/1.1 405 Method Not Allowed\r\n\r\n"));
  t.after(() => notFound.close());
  await new Promise((resolve) => notFound.once("listening", resolve));
  const { code, stdout } = await net(t, newHome(t), { status: userspace() }, {
    HTTP_PROXY: `http://127.0.0.1:${server.address().port}`,
    http_proxy: `http://127.0.0.1:${notFound.address().port}`,
    HTTPS_PROXY: "http://proxy.example:3128",
    ALL_PROXY: "http://user:secret@127.0.0.1:1",
    all_proxy: "socks5://127.0.0.1:1",
  });
  assert.equal(code, 1);
  assert.match(stdout, /no HTTP proxy answers/);
  for (const never of ["proxy.example", "secret", "socks5"]) assert.ok(!stdout.includes(never));
});

test("net keeps the bindings, and binding keeps the path", async (t) => {
  const coda = await Coda.start(t);
  const proxy = await Proxy.start(t);
  const home = newHome(t);
  proxy.routes.set(`127.0.0.1:${coda.port}`, coda.port);
  await bound(coda, home);
  await net(t, home, { status: userspace() }, { HTTP_PROXY: proxy.address });
  assert.deepEqual([stored(home).proxy, stored(home).records.length], [proxy.address, 1]);
  await bound(coda, home, "another");
  assert.deepEqual([stored(home).proxy, stored(home).records.length], [proxy.address, 2]);
});
