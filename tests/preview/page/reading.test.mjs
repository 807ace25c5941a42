import assert from "node:assert/strict";
import { test } from "node:test";
import { article, openBot } from "../browser.mjs";
import { SELF } from "../standin.mjs";
import { start } from "./setup.mjs";

/** What is in the document and what is seen. */
const seen = (page) =>
  page.evaluate(() => {
    const scroller = document.querySelector(".scroller");
    const { top, bottom } = scroller.getBoundingClientRect();
    const articles = [...scroller.querySelectorAll("article")];
    const visible = articles.filter((each) => each.getBoundingClientRect().bottom > top && each.getBoundingClientRect().top < bottom);
    return {
      drawn: articles.length,
      last: visible.at(-1)?.querySelector(".body").textContent,
      atBottom: scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 2,
    };
  });

test("the newest messages come first, with who and when, and day lines", async (t) => {
  const day = 86_400_000;
  const { page } = await start(t, (provider) => {
    const bot = provider.bot("小艾");
    bot.say("很久以前", { at: Date.UTC(2024, 1, 3, 4, 5) });
    bot.say("昨天说的", { at: Date.now() - day });
    bot.say("今天说的", { own: true });
  });
  await openBot(page, "小艾");
  const days = page.locator(".day");
  await days.nth(2).waitFor();
  assert.match((await days.allTextContents()).join(" "), /2024年2月3日.* 昨天 今天/);
  assert.match(await article(page, "昨天说的").locator("header").innerText(), /小艾\s+\d\d:\d\d/);
  assert.equal(await article(page, "今天说的").locator(".name").innerText(), "Sample Person");
  assert.ok((await seen(page)).atBottom);
});

test("5,000 messages are scrolled back without a jump", async (t) => {
  const { page } = await start(t, (provider) => {
    // Rows of many heights: guesses are wrong all the time.
    provider.bot("小艾").fill(5_000, (n) => `第 ${n} 条。${"话".repeat((n * 37) % 150)}`);
  });
  await openBot(page, "小艾");
  await article(page, "第 5000 条").waitFor();
  const { jumps, steps, most } = await page.evaluate(async () => {
    const scroller = document.querySelector(".scroller");
    const frame = () => new Promise(requestAnimationFrame);
    const isIdle = () => scroller.getAttribute("aria-busy") === "false";
    const beginning = () => [...scroller.querySelectorAll(".line")].some((line) => line.textContent === "会话从这里开始");
    const jumps = [];
    let steps = 0;
    let most = 0;
    while (!(beginning() && scroller.scrollTop === 0) && steps < 5_000) {
      steps += 1;
      const { top } = scroller.getBoundingClientRect();
      const watched = [...scroller.querySelectorAll("article")].find((each) => each.getBoundingClientRect().bottom > top + 1);
      const before = watched.getBoundingClientRect().top;
      const step = Math.min(1_000, scroller.scrollTop);
      scroller.scrollBy(0, -step);
      // The scroll event and what it brings, then whatever page was asked for.
      await frame();
      await frame();
      while (!isIdle()) await frame();
      await frame();
      const moved = watched.getBoundingClientRect().top - before;
      if (!watched.isConnected || Math.abs(moved - step) > 1.5) jumps.push({ steps, step, moved });
      most = Math.max(most, scroller.querySelectorAll("article").length);
    }
    return { jumps, steps, most };
  });
  assert.deepEqual(jumps, []);
  assert.ok(steps < 5_000);
  assert.ok(most < 80, `${most} rows were drawn at once`);
  await article(page, "第 1 条。").first().waitFor();
});

test("what comes below moves nothing while older messages are read", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").fill(200));
  await openBot(page, "小艾");
  const [bot] = provider.bots;
  await article(page, "第 200 条").waitFor();
  bot.say("跟着走的一条");
  await article(page, "跟着走的一条").waitFor();
  assert.ok((await seen(page)).atBottom, "at the bottom the newest stays in sight");

  await page.evaluate(() => document.querySelector(".scroller").scrollBy(0, -1_000));
  const jump = page.getByRole("button", { name: "回到最新消息" });
  await jump.waitFor();
  const before = await seen(page);
  bot.say("下面的一条");
  await page.getByRole("button", { name: "有新消息" }).waitFor();
  assert.equal((await seen(page)).last, before.last);
  await page.getByRole("button", { name: "有新消息" }).click();
  await article(page, "下面的一条").waitFor();
  assert.ok((await seen(page)).atBottom);
});

test("a revision shows in place, and its earlier versions on demand", async (t) => {
  const { provider, page } = await start(t, (provider) => {
    const bot = provider.bot("小艾");
    bot.say("第一版");
    bot.say("后面的一条");
  });
  await openBot(page, "小艾");
  const [bot] = provider.bots;
  const [first] = bot.messages;
  await article(page, "第一版").waitFor();
  bot.edit(first, "第二版");
  bot.edit(first, "第三版");
  await article(page, "第三版").waitFor();
  assert.equal(await page.locator("article").count(), 2);
  assert.equal(await article(page, "第二版").count(), 0);
  await page.getByRole("button", { name: /已编辑，查看 2 个更早的版本/ }).click();
  assert.deepEqual(await page.locator(".version .plain, .version p").allTextContents(), ["第一版", "第二版"]);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "已编辑", "the keyboard stays where it was");
  bot.remove(first);
  await page.getByText("此消息已删除").waitFor();
  assert.equal(await page.getByText("第三版").count(), 0);
});

test("a streamed text that pauses grows in its place", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").fill(60));
  await openBot(page, "小艾");
  const [bot] = provider.bots;
  const message = bot.say("正在");
  for (const text of ["正在写", "正在写一段", "正在写一段很长的话"]) {
    bot.edit(message, text);
    await page.locator("article .body", { hasText: new RegExp(`^${text}\\s*$`) }).waitFor();
  }
  assert.equal(await page.locator("article .body", { hasText: "正在" }).count(), 1);
  assert.ok((await seen(page)).atBottom);
});

test("a reply shows what it answers and leads there", async (t) => {
  const { page } = await start(t, (provider) => {
    const bot = provider.bot("小艾");
    const first = bot.say("要不要带伞？");
    for (let n = 1; n <= 90; n += 1) bot.say(`闲聊 ${n}`);
    bot.say("要带", { own: true, replyTo: { message: first.id } });
    bot.say("嗯", { replyTo: { message: "1:gone" } });
  });
  await openBot(page, "小艾");
  await article(page, "要带").getByRole("button", { name: "回复 小艾：要不要带伞？" }).click();
  await article(page, "要不要带伞？").first().waitFor();
  assert.match(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), /要不要带伞/);
  await page.getByRole("button", { name: "回到最新消息" }).click();
  await page.getByText("回复一条这里没有的消息").waitFor();
});

test("an attachment is its name and size, whatever its name tries", async (t) => {
  const { page } = await start(t, (provider) => {
    const bot = provider.bot("小艾");
    bot.say("[附件] x", { _meta: { "grok-bot": { attachment: { name: "photo_\u202egpj.exe", size: 48_213 } } } });
  });
  await openBot(page, "小艾");
  assert.match(await page.locator(".attachment").innerText(), /photo_gpj\.exe\s+47 KB/);
});

test("100,000 messages and 100 Bots stay fast, with little in the document", async (t) => {
  const { provider, page } = await start(t, (provider) => {
    for (let n = 1; n < 100; n += 1) provider.bot(`Bot ${n}`).fill(3);
    provider.bot("大户").fill(100_000);
  });
  await page.locator(".bot").nth(99).waitFor();
  await openBot(page, "大户");
  await article(page, "第 100000 条").waitFor();
  // All of it is loaded, as somebody does who holds the key down.
  await page.evaluate(async () => {
    const scroller = document.querySelector(".scroller");
    const beginning = () => [...scroller.querySelectorAll(".line")].some((line) => line.textContent === "会话从这里开始");
    while (!beginning()) {
      scroller.scrollTop = 0;
      await new Promise(requestAnimationFrame);
    }
  });
  assert.ok((await seen(page)).drawn < 80);
  // With all that loaded a new message and a turn of the wheel are still quick.
  const longest = await page.evaluate(async () => {
    const scroller = document.querySelector(".scroller");
    let longest = 0;
    for (let n = 0; n < 20; n += 1) {
      scroller.scrollTop = (scroller.scrollHeight * n) / 20;
      const begun = performance.now();
      scroller.dispatchEvent(new Event("scroll"));
      longest = Math.max(longest, performance.now() - begun);
      await new Promise(requestAnimationFrame);
    }
    return longest;
  });
  assert.ok(longest < 500, `one scroll took ${longest} ms`);
  await page.getByRole("button", { name: "回到最新消息" }).click();
  provider.bots.at(-1).say("还是很快");
  await article(page, "还是很快").waitFor();
  assert.equal(provider.bots.at(-1).messages.at(-1).from === SELF, false);
});
