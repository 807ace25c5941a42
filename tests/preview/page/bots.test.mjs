import assert from "node:assert/strict";
import { test } from "node:test";
import { article, openBot } from "../browser.mjs";
import { asked, start, until } from "./setup.mjs";

const row = (page, title) => page.locator(".bots li", { hasText: title });

test("rows come, change and go by themselves, and say what the Bot does", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").say("早"));
  await row(page, "小艾").waitFor();
  const scout = provider.bot("Scout");
  await row(page, "Scout").waitFor();
  scout.work("正在读三份资料");
  await row(page, "Scout").locator(".busy", { hasText: "正在读三份资料" }).waitFor();
  scout.work(null);
  await row(page, "Scout").locator(".busy").waitFor({ state: "detached" });
  scout.title = "Scout 2";
  provider.notify("records/put", { record: scout.record() });
  await row(page, "Scout 2").waitFor();
  provider.withdraw(scout);
  await row(page, "Scout").waitFor({ state: "detached" });
  await page.locator(".passing", { hasText: "「Scout 2」已被删除" }).waitFor();
});

test("a Bot that is renamed while it is looked at has its new name everywhere", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").say("早"));
  await openBot(page, "小艾");
  await article(page, "早").waitFor();
  const [bot] = provider.bots;
  bot.title = "小爱";
  provider.notify("records/put", { record: bot.record() });
  await page.locator("article .name", { hasText: "小爱" }).waitFor();
  assert.equal(await page.locator(".conversation h2").innerText(), "小爱");
  assert.equal(await page.locator("#composer-text").getAttribute("placeholder"), "发消息给 小爱");
});

test("unread is counted until the Bot is looked at, over a reload too", async (t) => {
  const { provider, page } = await start(t, (provider) => {
    provider.bot("小艾").say("旧的");
    provider.bot("Scout").say("old");
  });
  await openBot(page, "Scout");
  await article(page, "old").waitFor();
  const [ai, scout] = provider.bots;
  ai.say("新的一");
  ai.say("新的二");
  scout.say("seen at once");
  await article(page, "seen at once").waitFor();
  await row(page, "小艾").getByText("2 条未读").waitFor();
  assert.equal(await row(page, "Scout").locator(".unread").isVisible(), false);
  await page.reload();
  await row(page, "小艾").getByText("2 条未读").waitFor();
  await openBot(page, "小艾");
  await row(page, "小艾").locator(".unread").waitFor({ state: "hidden" });
});

test("what a new Bot says first is unread, and what one had said before it was met is not", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").say("早"));
  await row(page, "小艾").waitFor();
  const fresh = provider.bot("新来的");
  const slow = provider.bot("慢的");
  slow.ready = false;
  await row(page, "新来的").waitFor();
  // Asked, and found empty.
  await page.waitForFunction((id) => JSON.parse(localStorage.getItem("coda-grok-bot.seen"))[id] === null, fresh.id);
  fresh.say("大家好");
  await row(page, "新来的").getByText("1 条未读").waitFor();
  slow.fill(3);
  slow.ready = true;
  slow.tellHead();
  await row(page, "慢的").getByText("第 3 条消息").waitFor();
  assert.equal(await row(page, "慢的").locator(".unread").isVisible(), false);
  await page.reload();
  await row(page, "新来的").getByText("1 条未读").waitFor();
  await openBot(page, "新来的");
  await row(page, "新来的").locator(".unread").waitFor({ state: "hidden" });
});

test("what the open Bot is doing is said above the composer, and how a turn failed", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").say("早"));
  await openBot(page, "小艾");
  const [bot] = provider.bots;
  bot.work("Grok 正在思考");
  await page.locator(".activity", { hasText: "Grok 正在思考" }).waitFor();
  provider.notify("session/activity", {
    record: bot.id,
    activity: null,
    _meta: { "grok-bot": { turnFailed: { code: "TIMEOUT", summary: "超时了" } } },
  });
  await page.locator(".activity.failed", { hasText: "这一轮没有完成：超时了" }).waitFor();
});

test("binding sends once for each opening and says what became of it", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").say("早"));
  let answer;
  provider.onBind = () => new Promise((resolve, reject) => (answer = { resolve, reject }));
  await row(page, "小艾").getByRole("button", { name: "绑定 小艾" }).click();
  const dialog = page.getByRole("dialog", { name: "绑定 小艾 的电脑" });
  await dialog.getByText("正在发绑定指令…").waitFor();
  await until(() => answer !== undefined);
  answer.resolve({ status: "sent", text: "已发给 Bot" });
  await dialog.getByText("已发给 Bot").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual(asked(provider, "view/open"), [{ view: "bind", args: [provider.bots[0].id] }]);

  answer = undefined;
  await row(page, "小艾").getByRole("button", { name: "绑定 小艾" }).click();
  await until(() => answer !== undefined);
  answer.reject({ code: -32012, message: "Coda 没有连接 tailnet，什么也没有发送；请先连接，然后再试。", data: { kind: "remote_unavailable" } });
  await dialog.getByText("没有连接 tailnet").waitFor();
  await dialog.getByRole("button", { name: "关闭" }).click();

  await row(page, "小艾").getByRole("button", { name: "绑定 小艾" }).click();
  await until(() => asked(provider, "view/open").length === 3);
  await provider.kill();
  await dialog.getByText("无法确认绑定指令是否已经发出；不会自动重发。").waitFor();
  await provider.listen();
  await page.locator(".passing", { hasText: "已恢复" }).waitFor();
  assert.equal(asked(provider, "view/open").length, 3);
});

for (const [demo, answered] of [[true, { code: "CODE-1" }], [false, undefined]]) {
  test(`the provider's request for a remote code is ${demo ? "answered in the demonstration" : "refused where there is none"}`, async (t) => {
    const { provider, page } = await start(t, (provider) => provider.bot("小艾").say("早"), { demo });
    await row(page, "小艾").waitFor();
    const answer = new Promise((resolve) => (provider.answered = resolve));
    const [socket] = provider.sockets;
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: 7, method: "protocols/remoteCode", params: { record: provider.bots[0].id } }));
    const { id, result, error } = await answer;
    assert.equal(id, 7);
    assert.equal(result?.code, answered?.code);
    assert.equal(error?.data.kind, demo ? undefined : "remote_unavailable");
  });
}
