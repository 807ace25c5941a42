// The pictures of README: the page over the demonstration, light and dark, wide and on a phone. `npm run screenshots` after a build.
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { article, composer, launch, openBot, openPage } from "./browser.mjs";
import { preview } from "./demo/program.mjs";

const folder = new URL("../../docs/screenshots/", import.meta.url);
await mkdir(folder, { recursive: true });
const browser = await launch();

for (const colorScheme of ["light", "dark"]) {
  // A demonstration of its own for each, so that both pictures begin the same.
  const program = await preview(["--demo"]);
  const save = (page, name) => page.screenshot({ path: fileURLToPath(new URL(`${name}-${colorScheme}.png`, folder)), animations: "disabled" });
  try {
    const page = await openPage(browser, program.link, { colorScheme, viewport: { width: 1120, height: 760 } });
    await page.getByRole("button", { name: "登录 Grok" }).click();
    await page.locator(".bot").nth(2).waitFor();
    await openBot(page, "小艾");
    await composer(page).fill("帮我部署一下");
    await composer(page).press("Enter");
    const question = article(page, "现在部署到哪里？").first();
    await question.getByRole("button", { name: "测试环境", exact: true }).click();
    await question.getByText("已选择：测试环境").waitFor();
    await page.locator(".activity:not([hidden])").waitFor();
    await page.mouse.move(0, 0);
    await save(page, "preview");
    await page.setViewportSize({ width: 390, height: 780 });
    await page.evaluate(() => new Promise(requestAnimationFrame));
    await save(page, "preview-phone");
    await page.context().close();
  } finally {
    await program.end();
  }
}
await browser.close();
