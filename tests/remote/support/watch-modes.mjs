// A worker that looks at a folder as fast as it can, to catch a file that is wide
// open for a moment only. Reports every kind of mode it saw.

import fs from "node:fs";
import path from "node:path";
import { parentPort, workerData } from "node:worker_threads";

const { folder, stop } = workerData;
const stopped = new Int32Array(stop);
const seen = new Set();
let looks = 0;
parentPort.postMessage("watching");
while (Atomics.load(stopped, 0) === 0) {
  const names = fs.existsSync(folder) ? fs.readdirSync(folder) : [];
  for (const file of [folder, ...names.map((name) => path.join(folder, name))]) {
    const stat = fs.lstatSync(file, { throwIfNoEntry: false });
    if (!stat) continue;
    const kind = file === folder ? "folder" : path.basename(file).replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, "*");
    seen.add(`${kind} ${(stat.mode & 0o7777).toString(8)}`);
    looks += 1;
  }
}
parentPort.postMessage({ seen: [...seen].sort(), looks });
