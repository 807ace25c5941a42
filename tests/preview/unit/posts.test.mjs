// A post is sent once and settled once, whatever happens between.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Posts } from "../../../src/preview/page/posts.js";
import { ConnectionLost, RpcError } from "../../../src/preview/page/rpc.js";

class Storage extends Map {
  getItem = (key) => this.get(key) ?? null;
  setItem = (key, value) => void this.set(key, value);
}

function setup(request = async () => ({ accepted: true })) {
  const storage = new Storage();
  const sent = [];
  const posts = new Posts({ storage, onChange: () => {} });
  const send = (text, more) => posts.send((method, params) => (sent.push({ method, params }), request()), { record: "r", text, ...more });
  return { storage, posts, sent, send };
}

test("every post has a run and a request of its own", async () => {
  const { sent, send } = setup();
  await send("a");
  await send("a", { replyTo: "1:e1" });
  const ids = sent.flatMap(({ params }) => [params.run.id, params.requestId]);
  assert.equal(new Set(ids).size, 4);
  assert.deepEqual(sent.map(({ params }) => [params.caller, params.text, params.replyTo]), [["preview-page", "a", undefined], ["preview-page", "a", "1:e1"]]);
});

test("a settle ends its run once", async () => {
  const { posts, send } = setup();
  await send("a");
  const [post] = posts.all;
  posts.settled({ run: post.run, state: "completed", result: { message: { id: "1:e1", cursor: "1:1" } } });
  posts.settled({ run: post.run, state: "failed", reason: "unknown", message: "?" });
  assert.deepEqual([post.state, post.id], ["sent", "1:e1"]);
  posts.tidy("r", (id) => id === "1:e1");
  assert.deepEqual([posts.all.length, posts.sentIds.has("1:e1")], [0, true]);
});

test("only unknown leaves open whether it was sent", async () => {
  for (const reason of ["unknown", "refused", "signed_out", "not_sent", "widget_closed"]) {
    const { posts, send } = setup();
    await send("a");
    posts.settled({ run: posts.all[0].run, state: "failed", reason, message: "…" });
    assert.equal(posts.all[0].state, reason === "unknown" ? "unknown" : "failed");
  }
});

test("a refused request was not sent; a lost connection leaves the run open", async () => {
  const refused = setup(async () => {
    throw new RpcError({ code: -32602, message: "空", data: { kind: "bad_params" } });
  });
  await refused.send("a");
  assert.deepEqual([refused.posts.all[0].state, refused.posts.all[0].message], ["failed", "空"]);
  assert.deepEqual(refused.posts.openRuns(), []);
  const lost = setup(async () => {
    throw new ConnectionLost();
  });
  await lost.send("a");
  const [{ run, state }] = lost.posts.all;
  assert.equal(state, "sending");
  assert.deepEqual(lost.posts.openRuns(), [{ id: run, record: "r" }]);
});

test("a reload knows the open runs", async () => {
  const { storage, posts, send } = setup();
  await send("a");
  const again = new Posts({ storage, onChange: () => {} });
  assert.deepEqual(again.openRuns(), posts.openRuns());
  storage.setItem("posts", "{broken");
  assert.deepEqual(new Posts({ storage, onChange: () => {} }).openRuns(), []);
});

test("what somebody else left in the storage is nothing to go on", () => {
  for (const left of ["null", "{}", "7", "[1, null, {}]", "[", '"posts"']) {
    const storage = new Map([["posts", left]]);
    const posts = new Posts({ storage: { getItem: (key) => storage.get(key), setItem: () => {} }, onChange: () => {} });
    assert.deepEqual(posts.openRuns(), [], left);
  }
});
