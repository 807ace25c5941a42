// A browser for each file of tests, a provider and a page for each test.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { launch, openPage } from "../browser.mjs";
import { Provider } from "../standin.mjs";

let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

/** A signed-in provider and its page. `prepare(provider)` runs before the page is there. */
export async function start(t, prepare = () => {}, { demo, ...options } = {}) {
  const provider = await Provider.start({ demo });
  await prepare(provider);
  const page = await openPage(browser, provider.link, options);
  t.after(async () => {
    await page.context().close();
    await provider.kill();
    assert.deepEqual(page.problems, [], "nothing goes wrong in the page");
  });
  return { provider, page };
}

/** Polls the provider's side; the page's side waits by locators. */
export async function until(condition) {
  const deadline = Date.now() + 40_000;
  while (!condition()) {
    assert.ok(Date.now() < deadline, `never: ${condition}`);
    await new Promise(setImmediate);
  }
}

/** The requests of one method. */
export const asked = (provider, method) => provider.requests.filter((request) => request.method === method).map(({ params }) => params);
