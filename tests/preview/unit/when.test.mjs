import assert from "node:assert/strict";
import { test } from "node:test";
import { left, size, withLocalTimes } from "../../../src/preview/page/when.js";
import { different } from "../vendor.mjs";

test("exact times are written in local time and the rest stays", () => {
  const text = withLocalTimes("自 <t:2026-01-02T03:04:05Z> 起连不上，<t:soon> <t:2026-99-99T00:00:00Z>");
  assert.match(text, /^自 2026年1月2日 .*04:05 起连不上，<t:soon> <t:2026-99-99T00:00:00Z>$/);
});

test("a wait is told in minutes and seconds", () => {
  assert.deepEqual([left(899_001), left(61_000), left(999), left(-5)], ["15:00", "1:01", "0:01", "0:00"]);
});

test("sizes", () => {
  assert.deepEqual([size(0), size(1023), size(48_213), size(5_000_000)], ["0 B", "1023 B", "47 KB", "4.8 MB"]);
});

test("the vendored libraries are the ones of the packages", async () => {
  assert.deepEqual(await different(), []);
});
