import assert from "node:assert/strict";
import { test } from "node:test";
import { article, composer, openBot } from "../browser.mjs";
import { asked, start, until } from "./setup.mjs";

test("a killed provider that comes back finds the page where it was, with what came meanwhile", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").fill(300));
  await openBot(page, "小艾");
  const [bot] = provider.bots;
  await article(page, "第 300 条").waitFor();
  await composer(page).fill("还没写完");
  await provider.kill();
  await page.locator(".standing", { hasText: "连接断开，正在重新连接" }).waitFor();
  await composer(page).press("Enter");
  await page.getByText("连接断开了，恢复后再发；内容已保留。").waitFor();
  bot.fill(700, (n) => `断线时的 ${n}`);
  await provider.listen();
  await page.locator(".passing", { hasText: "插件重新启动过，已恢复" }).waitFor();
  await article(page, "断线时的 700").waitFor();
  assert.equal(await page.locator(".standing").textContent(), "");
  assert.equal(await composer(page).inputValue(), "还没写完");
  await composer(page).press("Enter");
  await article(page, "还没写完").locator(".state", { hasText: "已发送" }).waitFor();
});

test("a post under way when the connection broke is told as open, settled unknown, and never sent again", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").say("在"));
  provider.onPost = () => {};
  await openBot(page, "小艾");
  await composer(page).fill("发了吗");
  await composer(page).press("Enter");
  await until(() => asked(provider, "session/post").length === 1);
  const [{ run }] = asked(provider, "session/post");
  await provider.kill();
  await page.locator(".standing", { hasText: "连接断开" }).waitFor();
  await provider.listen();
  await page.locator("article.unknown", { hasText: "发了吗" }).waitFor();
  assert.deepEqual(asked(provider, "initialize").at(-1).openRuns, [{ id: run.id, record: provider.bots[0].id }]);
  assert.equal(asked(provider, "session/post").length, 1);
  // A reload tells of no run that has its end.
  await page.reload();
  await page.locator(".bot").waitFor();
  assert.equal(asked(provider, "initialize").at(-1).openRuns, undefined);
});

test("a reload in the middle of a post tells its run", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").say("在"));
  provider.onPost = () => {};
  await openBot(page, "小艾");
  await composer(page).fill("刷新");
  await composer(page).press("Enter");
  await until(() => asked(provider, "session/post").length === 1);
  await page.reload();
  await openBot(page, "小艾");
  await page.locator("article.unknown", { hasText: "刷新" }).waitFor();
  assert.equal(asked(provider, "initialize").at(-1).openRuns.length, 1);
});

test("a history that begins anew is read anew and told in one line", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").fill(20));
  await openBot(page, "小艾");
  const [bot] = provider.bots;
  await article(page, "第 20 条").waitFor();
  bot.reset({ ready: false });
  await page.getByText("这个 Bot 的历史还在读取").waitFor();
  assert.equal(await page.locator("article").count(), 0);
  bot.ready = true;
  bot.say("新的开始");
  await article(page, "新的开始").waitFor();
  await page.locator(".passing", { hasText: "「小艾」的历史已被重置，已重新读取。" }).waitFor();
});

test("a history that was reset while nobody was connected is told, too", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").fill(20));
  await openBot(page, "小艾");
  await article(page, "第 20 条").waitFor();
  await provider.kill();
  const [bot] = provider.bots;
  bot.reset();
  bot.say("另一段");
  await provider.listen();
  await article(page, "另一段").waitFor();
  await page.locator(".passing", { hasText: "历史已被重置" }).waitFor();
  assert.equal(await article(page, "第 20 条").count(), 0);
});

test("a page whose key is no longer the right one says which link to open", async (t) => {
  const { provider, page } = await start(t);
  await page.locator(".resource", { hasText: "已登录" }).waitFor();
  await provider.kill();
  provider.key = "another";
  await provider.listen();
  await page.getByText("这个链接已失效").waitFor();
});

test("a link without its key says so and asks for nothing", async (t) => {
  const { provider, page } = await start(t);
  await page.goto("about:blank");
  await until(() => provider.sockets.size === 0);
  const before = provider.requests.length;
  await page.goto(`${provider.origin}/`);
  await page.getByText("链接不完整").waitFor();
  assert.equal(provider.requests.length, before);
});

for (const [size, options] of [["wide", {}], ["phone", { viewport: { width: 360, height: 700 } }]]) test(`a Bot that goes while it is looked at leads back to the list, and says so, ${size}`, async (t) => {
  const { provider, page } = await start(
    t,
    (provider) => {
      provider.bot("小艾").say("一");
      provider.bot("Scout").say("two");
    },
    options,
  );
  await openBot(page, "小艾");
  provider.withdraw(provider.bots[0]);
  await page.locator(".passing", { hasText: "「小艾」已被删除" }).waitFor();
  assert.deepEqual(await page.locator(".bot-title").allTextContents(), ["Scout"]);
  await page.locator(".conversation").waitFor({ state: "hidden" });
  await page.locator(".bot", { hasText: "Scout" }).click();
  await article(page, "two").waitFor();
});

test("a provider that doesn't know its records yet after a restart loses no conversation", async (t) => {
  const { provider, page } = await start(t, (provider) => {
    provider.bot("小艾").fill(250);
    provider.bot("删掉的").say("一");
  });
  await openBot(page, "小艾");
  await article(page, "第 250 条").waitFor();
  await page.evaluate(() => document.querySelector(".scroller").scrollBy(0, -3_000));
  await page.getByRole("button", { name: "回到最新消息" }).waitFor();
  const top = () => page.evaluate(() => document.querySelector(".scroller").scrollTop);
  const before = await top();
  await provider.kill();
  await page.locator(".standing", { hasText: "连接断开" }).waitFor();
  const [bot] = provider.bots;
  provider.bots = [];
  await provider.listen();
  await page.locator(".passing", { hasText: "插件重新启动过" }).waitFor();
  await until(() => asked(provider, "session/read").some(({ after }) => after !== undefined));
  assert.deepEqual(await page.locator(".bot-title").allTextContents(), ["小艾", "删掉的"]);
  provider.bots = [bot];
  provider.notify("records/put", { record: bot.record() });
  bot.say("之后的");
  await page.getByRole("button", { name: "有新消息" }).waitFor();
  assert.equal(await top(), before, "it is where it was");
  // What isn't told any more goes by itself.
  await page.locator(".bot", { hasText: "删掉的" }).waitFor({ state: "detached" });
});
