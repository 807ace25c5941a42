// The search for secrets in what the program printed, wrote and sent: the same as tests/it/support/judge.rs makes of its runs.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";

/** What looks like a token of anybody. */
export const TOKEN = /eyJ[\w-]+\.[\w-]+\.[\w-]+/;

/** A text that nobody but its author would write. */
const telling = (text) => (text.match(/[^\x00-\x7f]/g) ?? []).length >= 2;

/**
 * Judges a run: `control` asks the simulated service what must stay secret, `printed` is what came on stdout and to pages, `logged` on stderr (nobody traces
 * here), `folders` are the data folders.
 */
export async function judge(control, { printed = [], logged = [], folders = [] }) {
  const { secrets, texts, misplaced } = await control("secrets");
  assert.deepEqual(misplaced, [], "sent to the service where it doesn't belong");
  // Of a token its last part is what is worth stealing.
  const worth = secrets.map((secret) => secret.split(".").at(-1));
  const said = texts.filter(telling);
  const search = (place, text, words) => {
    const found = words.find((word) => text.includes(word));
    assert.equal(found, undefined, `in ${place}`);
    assert.doesNotMatch(text, TOKEN, `in ${place}`);
  };
  for (const text of printed) search("stdout", text, worth);
  for (const text of logged) search("the log", text, [...worth, ...said]);
  for (const folder of folders) {
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      const home = /^\.?native-auth\.json/.test(basename(entry.name));
      if (!entry.isFile() || home) continue;
      search(entry.name, readFileSync(join(entry.parentPath ?? entry.path, entry.name), "utf8"), [...worth, ...said]);
    }
  }
}
