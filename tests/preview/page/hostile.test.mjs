// Texts that want to be more than texts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { article, openBot } from "../browser.mjs";
import { start } from "./setup.mjs";

const HOSTILE = [
  "<script>globalThis.pwned = 1</script>",
  "<img src=x onerror='globalThis.pwned = 1'>",
  "<svg/onload=globalThis.pwned=1>",
  "<iframe srcdoc='<script>parent.pwned = 1</script>'></iframe>",
  "<a href='javascript:globalThis.pwned=1'>raw</a>",
  "[script](javascript:globalThis.pwned=1)",
  "[script](JaVaScRiPt&colon;globalThis.pwned=1)",
  "[data](data:text/html,<script>1</script>)",
  "[relative](/host/hello) [fragment](#key=x)",
  "![picture](http://127.0.0.1:9/tracker.png)",
  "<style>body { display: none }</style><form action='/x'><input name=a><button>go</button></form>",
  "<div id='composer-text' class='dialog' style='position:fixed;inset:0'>over</div>",
  "`<b>code</b>` **<i>bold</i>**",
  "<math><mtext></mtext><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=pwned=1&gt;'></math>",
  "[a](http://x/\"onmouseover=\"pwned=1)",
];

test("nothing of a message runs, loads, covers or submits", async (t) => {
  const { provider, page } = await start(t, (provider) => {
    const bot = provider.bot("<b>小艾</b>\u202e");
    for (const text of HOSTILE) bot.say(text);
    bot.say("最后一条");
  });
  const loaded = [];
  page.on("request", (request) => loaded.push(request.url()));
  await openBot(page, "小艾");
  await article(page, "最后一条").waitFor();
  await page.evaluate(() => (document.querySelector(".scroller").scrollTop = 0));
  await article(page, "pwned = 1</script>").first().waitFor();
  const found = await page.evaluate(() => ({
    pwned: globalThis.pwned,
    tags: [...new Set([...document.querySelectorAll(".body *")].map((element) => element.localName))],
    attributes: [...new Set([...document.querySelectorAll(".body *")].flatMap((element) => element.getAttributeNames()))],
    links: [...document.querySelectorAll(".body a")].map((link) => [link.protocol, link.target, link.rel]),
  }));
  assert.equal(found.pwned, undefined);
  for (const tag of ["script", "img", "svg", "iframe", "style", "form", "input", "math"]) assert.ok(!found.tags.includes(tag), tag);
  for (const attribute of found.attributes) assert.ok(!/^on|^style$|^id$/.test(attribute), attribute);
  for (const [protocol, target, rel] of found.links) assert.deepEqual([/^https?:$/.test(protocol), target, rel], [true, "_blank", "noopener noreferrer"]);
  assert.deepEqual(loaded.filter((url) => !url.startsWith(provider.origin)), []);
  assert.equal(await page.locator(".conversation h2").innerText(), "<b>小艾</b>");
});

test("Markdown that is meant is shown", async (t) => {
  const { page } = await start(t, (provider) => {
    provider.bot("小艾").say("# 标题\n\n- **粗** 和 `码`\n- [x] 做完\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n[链接](https://example.test/x) https://example.test/y\n\n会议 <t:2026-01-02T03:04:05Z>");
  }, { timezoneId: "Asia/Shanghai" });
  await openBot(page, "小艾");
  const body = article(page, "标题").locator(".body");
  await body.getByRole("heading", { name: "标题" }).waitFor();
  assert.equal(await body.locator("strong").innerText(), "粗");
  assert.equal(await body.locator("td").count(), 2);
  assert.deepEqual(await body.locator("a").evaluateAll((links) => links.map(({ href }) => href)), ["https://example.test/x", "https://example.test/y"]);
  assert.equal(await body.locator("time").innerText(), "2026年1月2日 11:04:05");
  assert.match(await body.innerText(), /☑\s*做完/);
});

test("a line of 200 KiB neither breaks the page's width nor holds it up", async (t) => {
  const { page } = await start(t, (provider) => {
    provider.bot("小艾").say("x".repeat(200 * 1024));
    provider.bot("小艾二").say(`${"[".repeat(8_000)}`);
    provider.bot("小艾三").say(`${">".repeat(9_000)} 深`);
  });
  await page.locator(".bot").first().click();
  await page.locator("article").waitFor();
  const wide = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth || document.querySelector(".scroller").scrollWidth > document.querySelector(".scroller").clientWidth);
  assert.equal(await wide(), false);
  await page.getByRole("button", { name: "显示全文（200 KB）" }).click();
  await page.getByRole("button", { name: /显示全文/ }).waitFor({ state: "detached" });
  assert.equal(await wide(), false);
  assert.equal((await page.locator("article .body").innerText()).trim().length, 200 * 1024);
  await openBot(page, "小艾二");
  await page.locator("article", { hasText: "[[[" }).waitFor();
  await openBot(page, "小艾三");
  await page.locator("article").waitFor();
});

for (const width of [1100, 360]) {
  test(`a name of 400 letters leaves everything in its place, ${width} wide`, async (t) => {
    const { provider, page } = await start(t, (provider) => provider.bot("A".repeat(400)).say("早"), { viewport: { width, height: 700 } });
    await page.locator(".bot").click();
    await article(page, "早").waitFor();
    const field = page.getByRole("textbox");
    assert.ok((await field.boundingBox()).height < 60, "the empty field is one line high");
    const inside = (selector) => page.locator(selector).evaluate((frame) => frame.scrollWidth <= frame.clientWidth);
    assert.ok(await inside(".scroller"));
    await page.locator(".conversation-head .bind").click();
    await page.getByText("已发给 Bot").waitFor();
    assert.ok(await inside("dialog"));
    await page.keyboard.press("Escape");
    provider.withdraw(provider.bots[0]);
    await page.locator(".passing", { hasText: "已被删除" }).waitFor();
    assert.ok(await inside("html"));
  });
}

test("marks of direction turn nothing outside of their message", async (t) => {
  const { page } = await start(t, (provider) => {
    const bot = provider.bot("\u202eevil");
    bot.say("\u202e反过来的\u2067\u2066");
    bot.say("שלום, أهلا");
    bot.say("后面的一条");
  });
  await page.locator(".bot").click();
  await article(page, "后面的一条").waitFor();
  assert.equal(await page.locator(".bot-title").innerText(), "evil");
  const isolated = await page.locator(".body").evaluateAll((bodies) => bodies.every((body) => /isolate/.test(getComputedStyle(body).unicodeBidi)));
  assert.ok(isolated);
  assert.equal(await article(page, "שלום").locator(".body p").evaluate((p) => getComputedStyle(p).direction), "rtl");
});
