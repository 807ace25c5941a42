// Reading a record while heads move, connections break and histories begin anew.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Reader } from "../../../src/preview/page/reader.js";
import { ConnectionLost, RpcError } from "../../../src/preview/page/rpc.js";
import { Roster } from "../../../src/preview/page/roster.js";

const message = (number, generation = 1) => ({ id: `${generation}:e${number}`, cursor: `${generation}:${number}`, from: "bot", at: "2026-01-02T03:04:05.000Z", text: `t${number}` });
const range = (from, to, generation) => Array.from({ length: to - from + 1 }, (_, n) => message(from + n, generation));
const error = (kind) => new RpcError({ code: -32010, message: kind, data: { kind } });

/** A reader whose reads are answered by hand. */
function setup() {
  const reads = [];
  const resets = [];
  const request = (_, params) => new Promise((resolve, reject) => reads.push({ params, resolve, reject }));
  const reader = new Reader({ request, record: "r", selfId: "me", onChange: () => {}, onReset: () => resets.push(1) });
  const page = (messages, { before = false, after = false, head } = {}) => ({ messages, head: head ?? messages.at(-1)?.cursor ?? null, hasMore: { before, after } });
  const settle = () => new Promise(setImmediate);
  return { reader, reads, resets, page, settle };
}

test("the newest page first, then what the head names, then older ones", async () => {
  const { reader, reads, page, settle } = setup();
  reader.open();
  reads.shift().resolve(page(range(11, 12), { before: true }));
  await settle();
  assert.equal(reader.state, "ready");
  reader.headMoved("1:13");
  reader.headMoved("1:14");
  assert.deepEqual(reads.map(({ params }) => params.after), ["1:12"], "one read at a time");
  reads.shift().resolve(page([message(13)], { head: "1:14", after: true }));
  await settle();
  assert.equal(reads[0].params.after, "1:13");
  reads.shift().resolve(page([message(14)]));
  await settle();
  assert.equal(reads.length, 0);
  reader.older();
  reader.older();
  assert.deepEqual(reads.map(({ params }) => params.before), ["1:11"]);
  reads.shift().resolve(page(range(1, 10)));
  await settle();
  assert.deepEqual([reader.conversation.entries.length, reader.moreBefore], [14, false]);
});

test("an answer that belongs to a history that is over is dropped", async () => {
  const { reader, reads, resets, page, settle } = setup();
  reader.open();
  reads.shift().resolve(page(range(1, 3), { before: true }));
  await settle();
  reader.older();
  const old = reads.shift();
  reader.headMoved(null);
  assert.equal(resets.length, 1);
  old.resolve(page([message(0)]));
  reads.shift().resolve(page(range(1, 2, 2)));
  await settle();
  assert.deepEqual(reader.conversation.entries.map(({ key }) => key), ["2:e1", "2:e2"]);
});

test("a history that was reset while nobody was connected is noticed and read anew", async () => {
  const { reader, reads, resets, page, settle } = setup();
  reader.open();
  reads.shift().resolve(page(range(1, 3)));
  await settle();
  reader.reconnected();
  reads.shift().reject(error("history_reset"));
  await settle();
  assert.equal(resets.length, 1);
  reads.shift().resolve(page(range(1, 1, 2)));
  await settle();
  assert.equal(reader.conversation.newest, "2:1");
});

test("a record that can't be read yet is read when it can", async () => {
  const { reader, reads, page, settle } = setup();
  reader.open();
  reads.shift().reject(error("not_ready"));
  await settle();
  assert.equal(reader.state, "waiting");
  reader.headMoved("1:2");
  reads.shift().resolve(page(range(1, 2)));
  await settle();
  assert.equal(reader.state, "ready");
  reader.close();
});

test("after a lost connection everything that came meanwhile is read", async () => {
  const { reader, reads, page, settle } = setup();
  reader.open();
  reads.shift().resolve(page(range(1, 3)));
  await settle();
  reader.headMoved("1:4");
  reads.shift().reject(new ConnectionLost());
  await settle();
  assert.equal(reader.state, "ready");
  reader.reconnected();
  reads.shift().resolve(page(range(4, 503), { after: true, head: "1:600" }));
  await settle();
  reads.shift().resolve(page(range(504, 600)));
  await settle();
  assert.equal(reader.conversation.entries.length, 600);
});

class Storage extends Map {
  getItem = (key) => this.get(key) ?? null;
  setItem = (key, value) => void this.set(key, value);
}

const record = (head) => ({ id: "r", title: "Bot", head, participants: [{ id: "me", self: true, name: "Me" }, { id: "bot", name: "Bot" }] });

test("unread is what the Bot said since it was looked at", async () => {
  const storage = new Storage();
  const said = [];
  const request = async () => ({ messages: [...said], head: null, hasMore: { before: false, after: false } });
  const settle = () => new Promise(setImmediate);
  const roster = new Roster({ request, storage, onChange: () => {} });
  said.push(...range(1, 3));
  roster.put(record("1:3"));
  await settle();
  assert.equal(roster.records.get("r").unread, 0, "what was there before is no news");
  said.push(message(4), { ...message(5), from: "me" }, { ...message(6), about: { message: "1:e1", change: "edit" } });
  roster.headMoved("r", "1:6");
  await settle();
  assert.equal(roster.records.get("r").unread, 1);
  // A reload, or a restart of the provider.
  const again = new Roster({ request, storage, onChange: () => {} });
  again.put(record("1:6"));
  await settle();
  assert.equal(again.records.get("r").unread, 1);
  again.markSeen("r", "1:6");
  assert.equal(again.records.get("r").unread, 0);
  // Another life of the history begins without news.
  said.splice(0, said.length, ...range(1, 2, 2));
  again.headMoved("r", null);
  again.headMoved("r", "2:2");
  await settle();
  assert.equal(again.records.get("r").unread, 0);
});

test("what somebody else left in the storage is nothing that was seen", async () => {
  for (const left of ["null", "7", "[]", "{"]) {
    const storage = new Storage([["coda-grok-bot.seen", left]]);
    const request = async () => ({ messages: range(1, 3), head: "1:3", hasMore: { before: false, after: false } });
    const roster = new Roster({ request, storage, onChange: () => {} });
    roster.put(record("1:3"));
    await new Promise(setImmediate);
    assert.equal(roster.records.get("r").unread, 0, left);
  }
});
