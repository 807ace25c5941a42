// Copies the libraries that the page uses out of the packages that package-lock.json pins, with their licences.
// `npm run vendor` after changing a version; a test checks that what is committed is what the packages hold.
import { copyFile, mkdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const here = new URL("./node_modules/", import.meta.url);
const there = new URL("../../src/preview/page/vendor/", import.meta.url);

/** From the package, to the page's folder. */
export const FILES = [
  ["marked/lib/marked.esm.js", "marked.js"],
  ["marked/LICENSE", "marked.LICENSE.txt"],
  ["dompurify/dist/purify.es.mjs", "dompurify.js"],
  ["dompurify/LICENSE", "dompurify.LICENSE.txt"],
];

/** The files that differ from their packages. */
export async function different() {
  const compare = async ([from, to]) => {
    const [ours, theirs] = await Promise.all([readFile(new URL(to, there)), readFile(new URL(from, here))]);
    return ours.equals(theirs) ? [] : [to];
  };
  return (await Promise.all(FILES.map(compare))).flat();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await mkdir(there, { recursive: true });
  for (const [from, to] of FILES) await copyFile(new URL(from, here), new URL(to, there));
}
