import assert from "node:assert/strict";
import { test } from "node:test";
import { openBot } from "../browser.mjs";
import { asked, start, until } from "./setup.mjs";

const resource = (page) => page.locator(".resource");

test("signing in: the link, the code for a phone, the word about Continue, the time left, cancel", async (t) => {
  const { provider, page } = await start(t, (provider) => (provider.status = { state: "signedOut" }));
  await page.getByRole("button", { name: "登录 Grok" }).click();
  const link = page.getByRole("link", { name: "打开登录页面" });
  await link.waitFor();
  assert.match(await link.getAttribute("href"), /loginDeepControl/);
  assert.equal(await link.getAttribute("target"), "_blank");
  assert.match(await link.getAttribute("rel"), /noopener/);
  await page.getByRole("img", { name: "登录链接的二维码" }).waitFor();
  assert.match(await resource(page).innerText(), /Continue/);
  assert.match(await page.getByRole("timer").innerText(), /剩余 1[45]:\d\d/);
  await page.getByRole("button", { name: "取消" }).click();
  await page.getByRole("button", { name: "登录 Grok" }).waitFor();
  assert.equal(asked(provider, "resource/cancelSignIn").length, 1);
});

test("a sign-in that is confirmed brings the Bots by themselves", async (t) => {
  const { provider, page } = await start(t, (provider) => (provider.status = { state: "signedOut" }));
  await page.getByRole("button", { name: "登录 Grok" }).click();
  await page.getByRole("link", { name: "打开登录页面" }).waitFor();
  provider.setStatus({ state: "signedIn", account: { id: "x", name: "样例用户" } });
  await resource(page).getByText("已登录：样例用户").waitFor();
  await page.getByText("还没有 Bot。").waitFor();
  provider.bot("小艾").say("来了");
  await openBot(page, "小艾");
});

test("since when the service can't be reached is told in local time", async (t) => {
  const { provider, page } = await start(t, () => {}, { timezoneId: "Asia/Shanghai" });
  await resource(page).getByText("已登录").waitFor();
  provider.setStatus({ ...provider.status, message: "自 <t:2026-01-02T03:04:05Z> 起无法连接 Grok，正在重试。" });
  await resource(page).getByText("2026年1月2日 11:04:05").waitFor();
  provider.setStatus({ ...provider.status, message: undefined });
  await until(() => true);
  await resource(page).locator(".resource-message").waitFor({ state: "hidden" });
});

test("a sign-in that has ended asks to sign in again while everything stays readable", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").say("仍可阅读"));
  await resource(page).getByText("已登录").waitFor();
  provider.setStatus({ ...provider.status, state: "signInAgain", message: "登录已失效，请重新登录；已有的记录仍可阅读。" });
  await page.getByRole("button", { name: "重新登录" }).waitFor();
  await openBot(page, "小艾");
  await page.locator("article", { hasText: "仍可阅读" }).waitFor();
  await page.getByRole("button", { name: "重新登录" }).click();
  await until(() => asked(provider, "resource/signIn").length === 1);
});

test("signing out asks first", async (t) => {
  const { provider, page } = await start(t, (provider) => provider.bot("小艾").say("一"));
  await openBot(page, "小艾");
  await page.getByRole("button", { name: "退出登录" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name: "取消" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.equal(asked(provider, "resource/signOut").length, 0);
  await page.getByRole("button", { name: "退出登录" }).click();
  await dialog.getByRole("button", { name: "退出登录" }).click();
  await page.getByRole("button", { name: "登录 Grok" }).waitFor();
  assert.equal(await page.locator(".bot").count(), 0);
  assert.equal(await page.locator(".conversation").isVisible(), false);
});

test("a sign-in that can't be begun says why", async (t) => {
  const { provider, page } = await start(t, (provider) => (provider.status = { state: "signedOut" }));
  provider.onSignIn = () => {
    throw { code: -32603, message: "没能开始登录，请稍后再试：磁盘已满", data: { kind: "internal" } };
  };
  await page.getByRole("button", { name: "登录 Grok" }).click();
  await page.locator(".passing", { hasText: "磁盘已满" }).waitFor();
});
