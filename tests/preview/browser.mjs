// Debian's Chromium, driven by playwright-core; and what most tests of the page do.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

/** The flags keep the browser from calling its makers; as root it has no sandbox. */
export async function launch() {
  const args = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  if (process.getuid?.() === 0) args.push("--no-sandbox");
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args });
}

/** A page that fails its test when anything goes wrong in it: an exception, an error in the console, something the policy stopped. */
export async function openPage(browser, link, options = {}) {
  const context = await browser.newContext({ locale: "zh-CN", viewport: { width: 1100, height: 760 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(40_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    // What a lost connection makes the browser say is no fault of the page.
    if (message.type() === "error" && !/ERR_CONNECTION|WebSocket connection|Failed to load resource/.test(message.text())) problems.push(message.text());
  });
  page.problems = problems;
  await page.goto(link);
  return page;
}

/** Opens a Bot's conversation. */
export async function openBot(page, title) {
  await page.locator(".bot", { hasText: title }).click();
  await page.locator(".conversation h2", { hasText: title }).waitFor();
}

export const composer = (page) => page.locator("#composer-text");
export const article = (page, text) => page.locator("article", { hasText: text });

const axe = readFileSync(new URL("./node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** The serious and critical findings of axe, in short. */
export async function findings(page) {
  // Evaluated by the driver: the page's policy would not let it in, rightly.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ target, failureSummary }) => `${target} ${failureSummary}`).join(" | ")}`);
}
