import assert from "node:assert/strict";
import { test } from "node:test";
import { article, composer, openBot } from "../browser.mjs";
import { asked, start, until } from "./setup.mjs";

const withBot = (provider) => provider.bot("小艾").say("在吗？");
const settle = (provider, params, reason, message) => provider.settle(params.run.id, { state: "failed", reason, message });

test("Enter sends, Shift+Enter breaks, a blank is not sent", async (t) => {
  const { provider, page } = await start(t, withBot);
  await openBot(page, "小艾");
  const text = composer(page);
  assert.ok(await text.evaluate((element) => element === document.activeElement), "ready to write");
  await page.keyboard.type("  ");
  await page.keyboard.press("Enter");
  await text.fill("");
  await page.keyboard.type("第一行");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("第二行");
  await page.keyboard.press("Enter");
  await article(page, "第一行").locator(".state", { hasText: "已发送" }).waitFor();
  assert.equal(await text.inputValue(), "");
  assert.deepEqual(asked(provider, "session/post").map(({ text }) => text), ["第一行\n第二行"]);
});

test("what an input method is composing is never sent half-typed", async (t) => {
  const { provider, page } = await start(t, withBot);
  await openBot(page, "小艾");
  const session = await page.context().newCDPSession(page);
  await session.send("Input.imeSetComposition", { text: "ni hao", selectionStart: 6, selectionEnd: 6 });
  assert.equal(await composer(page).inputValue(), "ni hao");
  // The Enter that takes a candidate comes as a key of the input method.
  await session.send("Input.dispatchKeyEvent", { type: "rawKeyDown", key: "Enter", code: "Enter", windowsVirtualKeyCode: 229 });
  await composer(page).evaluate((element) => {
    element.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true }));
    // Some browsers end the composition before they tell of its Enter.
    element.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true, cancelable: true }));
  });
  await session.send("Input.insertText", { text: "你好" });
  await page.keyboard.press("Enter");
  await article(page, "你好").locator(".state", { hasText: "已发送" }).waitFor();
  assert.deepEqual(asked(provider, "session/post").map(({ text }) => text), ["你好"]);
});

test("a message is sending until it is settled, and is never shown twice", async (t) => {
  const { provider, page } = await start(t, withBot);
  provider.onPost = () => {};
  await openBot(page, "小艾");
  await composer(page).fill("慢慢来");
  await composer(page).press("Enter");
  await article(page, "慢慢来").locator(".state", { hasText: "发送中" }).waitFor();
  await until(() => asked(provider, "session/post").length === 1);
  // Counted at every change of the document.
  await page.evaluate(() => {
    globalThis.most = 0;
    const count = () => {
      const all = [...document.querySelectorAll("article .body")].filter((body) => body.textContent.trim() === "慢慢来");
      globalThis.most = Math.max(globalThis.most, all.length);
    };
    new MutationObserver(count).observe(document.querySelector(".scroller"), { subtree: true, childList: true });
  });
  provider.echo(asked(provider, "session/post")[0]);
  await article(page, "慢慢来").locator(".state", { hasText: "已发送" }).waitFor();
  assert.equal(await page.evaluate(() => globalThis.most), 1);
});

test("a failure says why, and is sent again as a new run only when the person says so", async (t) => {
  const { provider, page } = await start(t, withBot);
  provider.onPost = (params) => settle(provider, params, "refused", "Grok 拒绝了这条消息，没有发出。");
  await openBot(page, "小艾");
  await composer(page).fill("不行的");
  await composer(page).press("Enter");
  const failed = page.locator("article.failed");
  await failed.getByText("Grok 拒绝了这条消息").waitFor();
  assert.match(await failed.innerText(), /没有发出/);
  provider.onPost = (params) => provider.echo(params);
  await failed.getByRole("button", { name: "再发一次" }).click();
  await article(page, "不行的").locator(".state", { hasText: "已发送" }).waitFor();
  const [first, second] = asked(provider, "session/post");
  assert.notEqual(first.run.id, second.run.id);
  assert.notEqual(first.requestId, second.requestId);
  assert.equal(await page.locator("article .body", { hasText: "不行的" }).count(), 1);
});

test("unknown says what it means, and goes when the person has read it", async (t) => {
  const { provider, page } = await start(t, withBot);
  provider.onPost = (params) => settle(provider, params, "unknown", "无法确认消息是否已经发出。");
  await openBot(page, "小艾");
  await composer(page).fill("在吗");
  await composer(page).press("Enter");
  const unsure = page.locator("article.unknown");
  await unsure.getByText("不会自动重发").waitFor();
  await unsure.getByRole("button", { name: "知道了" }).click();
  await unsure.waitFor({ state: "detached" });
  assert.equal(asked(provider, "session/post").length, 1);
});

test("a reply names its message, and Escape takes it back", async (t) => {
  const { provider, page } = await start(t, withBot);
  await openBot(page, "小艾");
  await article(page, "在吗？").hover();
  await page.getByRole("button", { name: "回复 小艾：在吗？" }).click();
  await page.locator(".answering", { hasText: "回复 小艾：在吗？" }).waitFor();
  await page.keyboard.press("Escape");
  await page.locator(".answering").waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "回复 小艾：在吗？" }).click();
  await page.keyboard.type("在");
  await page.keyboard.press("Enter");
  await article(page, "在吗？").nth(1).locator(".state", { hasText: "已发送" }).waitFor();
  assert.equal(asked(provider, "session/post")[0].replyTo, provider.bots[0].messages[0].id);
});

test("a question is answered by its buttons once and shows what was chosen", async (t) => {
  const { provider, page } = await start(t, (provider) => {
    provider.bot("小艾").ask("部署到哪里？", [["正式环境", "production"], ["测试环境", "staging"]]);
  });
  provider.onPost = () => {};
  await openBot(page, "小艾");
  const question = article(page, "部署到哪里？").first();
  assert.doesNotMatch(await question.locator(".body p").first().innerText(), /production/, "the options are buttons, not lines");
  await question.getByRole("button", { name: "测试环境", exact: true }).click();
  await question.getByText("正在提交…").waitFor();
  await question.getByRole("button", { name: "正式环境", exact: true }).dispatchEvent("click");
  await until(() => asked(provider, "session/post").length > 0);
  const [post, ...more] = asked(provider, "session/post");
  assert.deepEqual([post.text, post.replyTo, more.length], ["测试环境", provider.bots[0].messages[0].id, 0]);
  provider.echo(post);
  await question.getByText("已选择：测试环境").waitFor();
  assert.equal(await question.getByRole("button", { name: "测试环境", exact: true }).getAttribute("aria-pressed"), "true");
  await question.getByRole("button", { name: "正式环境", exact: true }).dispatchEvent("click");
  assert.equal(asked(provider, "session/post").length, 1);
});

test("a question that was answered elsewhere says so", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").ask("部署？", [["好"], ["不"]]));
  provider.onPost = (params) => settle(provider, params, "widget_closed", "这个问题已经不能回答了，没有发出。");
  await openBot(page, "小艾");
  await page.getByRole("button", { name: "好", exact: true }).click();
  await page.getByText("这个问题已经不能回答了").waitFor();
  assert.equal(await page.getByRole("button", { name: "不", exact: true }).getAttribute("aria-disabled"), "true");
});

test("a text over the limit is kept and said to be too long", async (t) => {
  const { provider, page } = await start(t, withBot);
  await openBot(page, "小艾");
  await composer(page).fill("长".repeat(70_000));
  await composer(page).press("Enter");
  await page.getByText("消息超过 200 KiB").waitFor();
  assert.equal((await composer(page).inputValue()).length, 70_000);
  assert.equal(asked(provider, "session/post").length, 0);
});

test("what was begun for one Bot waits while another is looked at", async (t) => {
  const { page } = await start(t, (provider) => {
    provider.bot("小艾").say("一");
    provider.bot("Scout").say("two");
  });
  await openBot(page, "小艾");
  await composer(page).fill("写了一半");
  await openBot(page, "Scout");
  assert.equal(await composer(page).inputValue(), "");
  await openBot(page, "小艾");
  assert.equal(await composer(page).inputValue(), "写了一半");
});
