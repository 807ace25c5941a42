// The page over the program itself, as a person has it: everything between the browser and the (simulated) service is the real thing.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { once } from "node:events";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { article, composer, findings, launch, openBot, openPage } from "../browser.mjs";
import { ROOT, folder, preview, simulate } from "./program.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

async function open(t, link, options) {
  const page = await openPage(browser, link, options);
  t.after(async () => {
    await page.context().close();
    assert.deepEqual(page.problems, [], "nothing goes wrong in the page");
  });
  return page;
}

async function signIn(page) {
  await page.getByRole("button", { name: "登录 Grok" }).click();
  await page.locator(".resource", { hasText: "已登录" }).waitFor();
}

/** A simulated service that only reacts, and a preview of it in a folder of its own. */
async function still(t, options) {
  const service = await simulate();
  t.after(() => service.end());
  const dir = await folder(t);
  const begin = (args = []) => preview(["--data-dir", dir, ...args], service.env);
  const program = await begin();
  const live = { program };
  t.after(() => live.program.end());
  const page = await open(t, program.link, options);
  await signIn(page);
  return { service, page, live, begin };
}

test("from the first command to a sent message and an answered question", async (t) => {
  const program = await preview(["--demo"]);
  t.after(() => program.end());
  const page = await open(t, program.link);
  await page.getByText("演示", { exact: true }).waitFor();
  await page.getByRole("button", { name: "登录 Grok" }).click();
  const link = await page.getByRole("link", { name: "打开登录页面" }).getAttribute("href");
  assert.match(link, /^http:\/\/127\.0\.0\.1:\d+\/loginDeepControl\?/);
  assert.doesNotMatch(link, /verifier/i);
  await page.getByRole("img", { name: "登录链接的二维码" }).waitFor();
  await page.locator(".resource", { hasText: "已登录：Sample Person" }).waitFor();
  await openBot(page, "小艾");
  await composer(page).fill("帮我部署一下");
  await composer(page).press("Enter");
  await article(page, "帮我部署一下").locator(".state", { hasText: "已发送" }).waitFor();
  await page.locator(".activity:not([hidden])").waitFor();
  const question = article(page, "现在部署到哪里？").first();
  await question.getByRole("button", { name: "测试环境", exact: true }).click();
  await question.getByText("已选择：测试环境").waitFor();
  await article(page, "已按「staging」完成").waitFor();
  assert.deepEqual(await findings(page), []);
  assert.equal(await program.end(), 0);
  assert.equal(program.errors(), "", "nothing to warn of in a first run");
});

test("no token of the service reaches the page", async (t) => {
  const program = await preview(["--demo"]);
  t.after(() => program.end());
  const page = await open(t, "about:blank");
  const seen = [];
  page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => seen.push(String(payload))));
  page.on("response", async (answer) => seen.push(await answer.text().catch(() => "")));
  await page.goto(program.link);
  await signIn(page);
  await openBot(page, "Scout");
  await page.locator("article").last().waitFor();
  const all = seen.join("\n");
  assert.ok(all.includes('"records/put"'));
  // What a token of the simulated service looks like, and what the credential file calls them.
  assert.doesNotMatch(all, /eyJ[A-Za-z0-9_-]{10,}|accessToken|refreshToken/);
});

test("an answer that is streamed shows once and grows in its place", async (t) => {
  const { service, page } = await still(t);
  const agent = await service.bot("写手");
  await service.say(agent, "s1", "开头");
  await openBot(page, "写手");
  await article(page, "开头").waitFor();
  for (const text of ["开头，中间", "开头，中间，结尾"]) {
    await service.resay(agent, "s1", text);
    await article(page, text).waitFor();
  }
  assert.equal(await page.locator("article").count(), 1);
  await page.getByRole("button", { name: /已编辑/ }).click();
  await page.locator(".version", { hasText: /开头\s*$/ }).waitFor();
});

test("5,000 messages of the service are scrolled back to the first", async (t) => {
  const { service, page } = await still(t);
  const agent = await service.bot("话痨");
  await service.fill(agent, 5_000);
  // Rows that no stream told of are found by a full read: of the next connection.
  await service.control("end-streams", { end: { type: "clean" } });
  await openBot(page, "话痨");
  await article(page, "第 5000 条").waitFor();
  const jumped = await page.evaluate(async () => {
    const scroller = document.querySelector(".scroller");
    const frame = () => new Promise(requestAnimationFrame);
    const beginning = () => [...scroller.querySelectorAll(".line")].some((line) => line.textContent === "会话从这里开始");
    let jumped = 0;
    while (!(beginning() && scroller.scrollTop === 0)) {
      const { top } = scroller.getBoundingClientRect();
      const watched = [...scroller.querySelectorAll("article")].find((each) => each.getBoundingClientRect().bottom > top + 1);
      const before = watched.getBoundingClientRect().top;
      const step = Math.min(1_000, scroller.scrollTop);
      scroller.scrollBy(0, -step);
      await frame();
      await frame();
      while (scroller.getAttribute("aria-busy") !== "false") await frame();
      await frame();
      if (Math.abs(watched.getBoundingClientRect().top - before - step) > 1.5) jumped += 1;
    }
    return jumped;
  });
  assert.equal(jumped, 0);
  await page.locator("article .body", { hasText: /^第 1 条\s*$/ }).waitFor();
});

test("the command that the Bot gets binds this machine, and its tools answer", async (t) => {
  const program = await preview(["--demo"]);
  t.after(() => program.end());
  const page = await open(t, program.link);
  await signIn(page);
  await openBot(page, "Scout");
  await page.locator(".conversation-head .bind").click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("已发给 Bot").waitFor();
  await page.keyboard.press("Escape");
  const message = article(page, "node coda-bot.mjs bind").first();
  const [, address, code] = /node coda-bot\.mjs bind (\S+) (\S+)/.exec(await message.innerText());
  const home = await folder(t);
  const client = join(ROOT, "remote/coda-bot.mjs");
  const env = { ...process.env, CODA_BOT_HOME: home };
  const { stdout } = await promisify(execFile)(process.execPath, [client, "bind", address, code], { env });
  const [, record] = /bound: (\S+)/.exec(stdout);
  assert.match(record, /^grok-bot:[0-9a-f]{64}:/);

  const mcp = spawn(process.execPath, [client, "mcp"], { env, stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(mcp, "exit");
  const lines = createInterface({ input: mcp.stdout })[Symbol.asyncIterator]();
  const call = async (id, method, params) => {
    mcp.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    return JSON.parse((await lines.next()).value).result;
  };
  await call(1, "initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } });
  const machines = await call(2, "tools/call", { name: "coda_machines", arguments: {} });
  assert.equal(machines.structuredContent.machines[0].id, "studio");
  const ticket = await call(3, "tools/call", { name: "coda_file_ticket", arguments: { key: "web-slow", title: "慢" } });
  assert.equal(ticket.structuredContent.run.state, "running");
  mcp.stdin.end();
  await exited;
});

test("a preview that is killed and started again finds its page, and misses nothing", async (t) => {
  const { service, page, live, begin } = await still(t);
  const agent = await service.bot("常在");
  await service.say(agent, "k1", "之前");
  await openBot(page, "常在");
  await article(page, "之前").waitFor();
  await live.program.end("SIGKILL");
  await page.locator(".standing", { hasText: "连接断开" }).waitFor();
  await service.say(agent, "k2", "不在的时候");
  const { port, link } = live.program;
  live.program = await begin();
  assert.deepEqual([live.program.port, live.program.link], [port, link], "the same port and the same key");
  await page.locator(".passing", { hasText: "插件重新启动过，已恢复" }).waitFor();
  await article(page, "不在的时候").waitFor();
  await composer(page).fill("回来了");
  await composer(page).press("Enter");
  await article(page, "回来了").locator(".state", { hasText: "已发送" }).waitFor();
});

test("a service that clears a history, on a phone, by keyboard alone", async (t) => {
  const { service, page } = await still(t, { viewport: { width: 360, height: 700 } });
  const agent = await service.bot("清空");
  await service.say(agent, "c1", "旧的");
  await page.locator(".bot", { hasText: "清空" }).focus();
  await page.keyboard.press("Enter");
  await article(page, "旧的").waitFor();
  await service.control("clear", { agent });
  await service.say(agent, "c2", "新的");
  await article(page, "新的").waitFor();
  assert.equal(await article(page, "旧的").count(), 0);
  await page.locator(".passing", { hasText: "历史已被重置" }).waitFor();
  for (let n = 0; n < 20 && !(await composer(page).evaluate((text) => text === document.activeElement)); n += 1) await page.keyboard.press("Tab");
  await page.keyboard.type("键盘");
  await page.keyboard.press("Enter");
  await article(page, "键盘").locator(".state", { hasText: "已发送" }).waitFor();
  assert.deepEqual(await findings(page), []);
});

test("a second preview of a folder says who holds it and gives up", async (t) => {
  const { live, page, begin } = await still(t);
  await page.locator(".bot").first().waitFor();
  const second = await begin();
  t.after(() => second.end());
  assert.notEqual(second.port, live.program.port);
  const other = await open(t, second.link);
  await other.locator(".standing", { hasText: "连接断开" }).waitFor();
  // The lock is waited for 5 s; then the program ends by itself, which this signal doesn't make it do.
  assert.equal(await second.end("SIGCONT"), 1);
  assert.match(second.errors(), /\S/);
});
