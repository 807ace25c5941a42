// How messages of a record fold into what a person sees.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Conversation } from "../../../src/preview/page/conversation.js";
import { compare, isAfter, parse, sameLife } from "../../../src/preview/page/cursor.js";

const message = (number, more = {}) => ({ id: `1:e${number}`, cursor: `1:${number}`, from: "bot", at: "2026-01-02T03:04:05.000Z", text: `t${number}`, ...more });
const change = (number, base, kind, text = "") => message(number, { id: `1:e${base}:${kind}:${number}`, about: { message: `1:e${base}`, change: kind }, text });
const keys = (conversation) => conversation.entries.map(({ key }) => key);

test("cursors are compared as integers of any size", () => {
  assert.ok(isAfter("1:18446744073709551615", "1:18446744073709551614"));
  assert.ok(isAfter("2:0", "1:99") && !isAfter("1:9", "1:10") && isAfter("0:0", null) && !isAfter(null, "0:0"));
  assert.equal(compare(parse("3:4"), parse("3:4")), 0);
  assert.ok(sameLife("3:4", "3:5") && !sameLife("3:4", "4:4"));
});

test("pages may come in any order and overlap", () => {
  const conversation = new Conversation("me");
  conversation.add([message(5), message(6)]);
  conversation.add([message(1), message(2)]);
  conversation.add([message(2), message(3), message(5), message(7)]);
  assert.deepEqual(keys(conversation), ["1:e1", "1:e2", "1:e3", "1:e5", "1:e6", "1:e7"]);
  assert.deepEqual([conversation.oldest, conversation.newest], ["1:1", "1:7"]);
  assert.deepEqual(conversation.entries.map(({ index }) => index), [0, 1, 2, 3, 4, 5]);
});

test("messages of one cursor keep the order of their page", () => {
  const conversation = new Conversation("me");
  const one = (id) => message(4, { id: `1:${id}` });
  conversation.add([one("z"), one("a"), one("m")]);
  assert.deepEqual(keys(conversation), ["1:z", "1:a", "1:m"]);
});

test("an edit shows in place, with the earlier versions", () => {
  const conversation = new Conversation("me");
  conversation.add([message(1), message(2), change(3, 1, "edit", "new"), change(4, 1, "edit", "newer")]);
  const [entry] = conversation.entries;
  assert.equal(conversation.entries.length, 2);
  assert.deepEqual([entry.text, entry.edited, entry.deleted], ["newer", true, false]);
  assert.deepEqual(entry.earlier.map(({ text }) => text), ["t1", "new"]);
});

test("a deleted message says so, and a text that comes after it is shown", () => {
  const conversation = new Conversation("me");
  conversation.add([message(1), change(2, 1, "delete")]);
  assert.ok(conversation.entries[0].deleted);
  conversation.add([change(3, 1, "edit", "again")]);
  assert.deepEqual([conversation.entries[0].deleted, conversation.entries[0].text], [false, "again"]);
});

test("an edit whose message is not loaded stands by itself until it is", () => {
  const conversation = new Conversation("me");
  conversation.add([message(8), change(9, 2, "edit", "new")]);
  assert.deepEqual(keys(conversation), ["1:e8", "1:e2"]);
  conversation.add([message(1), message(2), message(3)]);
  assert.deepEqual(keys(conversation), ["1:e1", "1:e2", "1:e3", "1:e8"]);
  assert.deepEqual([conversation.entries[1].text, conversation.entries[1].earlier.length], ["new", 1]);
  // The page below was read from 9 down: what is oldest is known.
  assert.equal(conversation.oldest, "1:1");
});

const widget = (number) => message(number, { _meta: { "grok-bot": { widget: { prompt: "?", options: [{ label: "Yes", value: "y" }, { label: "No", value: "n" }] } } } });
const answer = (number, to, text) => message(number, { id: `1:e${to}:reply`, from: "me", text, replyTo: { message: `1:e${to}` }, mentions: ["bot"] });

test("a question shows what was chosen, and is open again when the answer is taken back", () => {
  const conversation = new Conversation("me");
  conversation.add([widget(1)]);
  const [question] = conversation.entries;
  assert.equal(conversation.chosen(question), null);
  const before = question.revision;
  conversation.add([answer(2, 1, "No")]);
  assert.equal(conversation.chosen(question).value, "n");
  assert.ok(question.revision > before, "it is drawn anew");
  const answered = question.revision;
  conversation.add([{ ...change(3, 1, "delete"), id: "1:e1:reply:delete:3", about: { message: "1:e1:reply", change: "delete" }, from: "me" }]);
  assert.equal(conversation.chosen(question), null);
  assert.ok(question.revision > answered);
});

test("a remark on a question is no answer to it, another's answer neither", () => {
  const conversation = new Conversation("me");
  conversation.add([widget(1), message(2, { from: "me", text: "why?", replyTo: { message: "1:e1" } }), message(3, { text: "Yes", replyTo: { message: "1:e1" } })]);
  assert.equal(conversation.chosen(conversation.entries[0]), null);
});

test("an edited question keeps its options", () => {
  const conversation = new Conversation("me");
  conversation.add([widget(1), change(2, 1, "edit", "other words"), answer(3, 1, "Yes")]);
  assert.equal(conversation.chosen(conversation.entries[0]).label, "Yes");
});

test("a reply finds what it answers by any version's id", () => {
  const conversation = new Conversation("me");
  conversation.add([message(1), change(2, 1, "edit", "new"), message(3, { replyTo: { message: "1:e1:edit:2" } })]);
  assert.equal(conversation.find(conversation.entries[1].replyTo).text, "new");
});

test("a hundred thousand messages are taken in page by page quickly", () => {
  const conversation = new Conversation("me");
  const started = performance.now();
  for (let page = 1000; page > 0; page -= 1) {
    conversation.add(Array.from({ length: 100 }, (_, n) => message((page - 1) * 100 + n + 1)));
  }
  assert.equal(conversation.entries.length, 100_000);
  assert.equal(conversation.entries[99_999].key, "1:e100000");
  // 1 ms a page here; the limit has room for a busy machine, not for something quadratic in the messages.
  assert.ok(performance.now() - started < 20_000);
});
