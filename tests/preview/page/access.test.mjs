// For everybody: a screen reader, a keyboard alone, a phone, light and dark, both languages.
import assert from "node:assert/strict";
import { test } from "node:test";
import { article, composer, findings, openBot } from "../browser.mjs";
import { asked, start, until } from "./setup.mjs";

function full(provider) {
  const bot = provider.bot("小艾");
  bot.fill(30);
  const first = bot.say("第一版，见 [链接](https://example.test)");
  bot.edit(first, "第二版，见 [链接](https://example.test) 和 `代码`\n\n| a | b |\n|---|---|\n| 1 | 2 |");
  bot.remove(bot.say("要删的"));
  bot.say("答", { own: true, replyTo: { message: first.id } });
  bot.say("[附件] a.csv", { _meta: { "grok-bot": { attachment: { name: "a.csv", size: 10 } } } });
  const asked = bot.ask("哪里？", [["这里", "here"], ["那里", "there"]]);
  bot.ask("几时？", [["今天"], ["明天"]]);
  bot.answer(asked, "这里");
  const scout = provider.bot("Scout");
  scout.say("hello");
  scout.work("Reading");
}

const PHONE = { viewport: { width: 360, height: 700 }, hasTouch: true, isMobile: true };

for (const colorScheme of ["light", "dark"]) {
  for (const [size, options] of [["wide", {}], ["phone", PHONE]]) {
    test(`no serious finding, ${colorScheme}, ${size}`, async (t) => {
      const { provider, page } = await start(t, full, { colorScheme, ...options });
      await page.locator(".bot").first().waitFor();
      assert.deepEqual(await findings(page), [], "the list");
      provider.bots[1].say("news");
      await openBot(page, "小艾");
      await article(page, "几时？").waitFor();
      await page.getByRole("button", { name: /已编辑/ }).click();
      assert.deepEqual(await findings(page), [], "a conversation");
      provider.onPost = (params) => provider.settle(params.run.id, { state: "failed", reason: "unknown", message: "无法确认。" });
      await composer(page).fill("不确定");
      await page.getByRole("button", { name: "发送" }).click();
      await page.locator("article.unknown").waitFor();
      provider.bots[0].work("正在写");
      assert.deepEqual(await findings(page), [], "a failed post");
      await page.locator(".conversation-head .bind").click();
      await page.getByText("已发给 Bot").waitFor();
      assert.deepEqual(await findings(page), [], "the bind view");
    });
  }

  test(`no serious finding while signing in, ${colorScheme}`, async (t) => {
    const { provider, page } = await start(t, (provider) => (provider.status = { state: "signedOut" }), { colorScheme });
    await page.getByRole("button", { name: "登录 Grok" }).waitFor();
    assert.deepEqual(await findings(page), []);
    await page.getByRole("button", { name: "登录 Grok" }).click();
    await page.getByRole("img").waitFor();
    assert.deepEqual(await findings(page), []);
    await provider.kill();
    await page.locator(".standing", { hasText: "连接断开" }).waitFor();
    assert.deepEqual(await findings(page), []);
    await provider.listen();
    await page.locator(".passing", { hasText: "已恢复" }).waitFor();
    assert.deepEqual(await findings(page), []);
  });
}

test("everything is reached by the keyboard alone", async (t) => {
  const { provider, page } = await start(t, (provider) => {
    provider.status = { state: "signedOut" };
  });
  const focused = () => page.evaluate(() => {
      const { activeElement: element } = document;
      return element === document.body ? "" : (element.getAttribute("aria-label") ?? element.textContent);
    });
  const tabTo = async (pattern, limit = 40) => {
    for (let n = 0; n < limit; n += 1) {
      if (pattern.test(await focused())) return;
      await page.keyboard.press("Tab");
    }
    assert.fail(`${pattern} isn't reached`);
  };
  await page.getByRole("button", { name: "登录 Grok" }).waitFor();
  await tabTo(/登录 Grok/);
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "打开登录页面" }).waitFor();
  await page.waitForFunction(() => document.activeElement.textContent === "打开登录页面");
  full(provider);
  provider.setStatus({ state: "signedIn", account: { id: "x", name: "样例" } });
  await page.locator(".bot").nth(1).waitFor();
  await tabTo(/^小小艾/);
  await page.keyboard.press("Enter");
  await article(page, "几时？").waitFor();
  await page.keyboard.type("用键盘写的");
  await page.keyboard.press("Enter");
  await article(page, "用键盘写的").locator(".state", { hasText: "已发送" }).waitFor();
  // Back from the composer to the messages, and to the buttons of the question.
  for (let n = 0; n < 60 && (await focused()) !== "今天"; n += 1) await page.keyboard.press("Shift+Tab");
  assert.equal(await focused(), "今天");
  await page.keyboard.press("Enter");
  await page.getByText("已选择：今天").waitFor();
  assert.equal(await focused(), "今天", "the focus stays at what was pressed");
  for (let n = 0; n < 80 && (await focused()) !== "消息"; n += 1) await page.keyboard.press("Shift+Tab");
  assert.equal(await focused(), "消息");
  await page.keyboard.press("Home");
  await page.getByText("会话从这里开始").waitFor();
  await page.keyboard.press("Shift+Tab");
  assert.equal(await focused(), "绑定");
  await page.keyboard.press("Enter");
  await page.getByText("已发给 Bot").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await focused(), "绑定");
  assert.equal(asked(provider, "view/open").length, 1);
});

test("a screen reader is told what comes, and not what is scrolled into sight", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").fill(300));
  await openBot(page, "小艾");
  await article(page, "第 300 条").waitFor();
  const heard = page.locator("[role=log]");
  assert.equal(await heard.getAttribute("aria-live"), "polite");
  await page.evaluate(() => (document.querySelector(".scroller").scrollTop = 0));
  await article(page, "第 201 条").waitFor();
  assert.equal(await heard.textContent(), "");
  provider.bots[0].say("**新** 消息");
  await heard.getByText("小艾 说：新 消息").waitFor();
  assert.equal(await page.locator(".scroller [aria-live], .scroller[aria-live]").count(), 0);
  const feed = page.getByRole("feed", { name: "消息" });
  assert.match(await feed.getByRole("article").first().getAttribute("aria-label"), /：第 \d+ 条消息/);
});

test("a phone shows one thing at a time, nothing is cut off, and back leads to the list", async (t) => {
  const { page } = await start(t, full, PHONE);
  await page.locator(".bot").first().waitFor();
  const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  assert.ok(await fits());
  assert.equal(await page.locator(".conversation").isVisible(), false);
  await openBot(page, "小艾");
  await article(page, "几时？").waitFor();
  assert.ok(await fits());
  assert.equal(await page.locator(".side").isVisible(), false);
  await page.goBack();
  await page.locator(".bot").first().waitFor();
  await openBot(page, "Scout");
  await page.getByRole("button", { name: "返回" }).click();
  await page.locator(".bot").first().waitFor();
  assert.match(page.url(), /#key=/, "the link stays whole");
});

test("in English, and it stays so", async (t) => {
  const { page } = await start(t, full);
  await page.getByRole("button", { name: "Switch to English" }).click();
  await page.getByText("Pick a Bot to start").waitFor();
  assert.equal(await page.locator("html").getAttribute("lang"), "en");
  await page.reload();
  await page.getByText("Pick a Bot to start").waitFor();
  await openBot(page, "Scout");
  await page.getByRole("button", { name: "Send" }).waitFor();
});
