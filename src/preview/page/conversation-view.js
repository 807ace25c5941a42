// One conversation on the screen: its reader, its rows, its composer.

import { Composer } from "./composer.js";
import { h, plainName, say } from "./dom.js";
import { EntryView } from "./entry-view.js";
import { summary } from "./markdown.js";
import { Reader } from "./reader.js";
import { nameOf, selfOf } from "./roster.js";
import { t } from "./texts.js";
import { VirtualList } from "./virtual.js";
import { withLocalTimes } from "./when.js";

export class ConversationView {
  /** `app` gives `request`, `posts`, `notices`, `isConnected()`, `onSeen(record, cursor)`, `onBack()`, `onBind(id)`. */
  constructor(app) {
    this.app = app;
    this.record = null;
    this.reader = null;
    this.postItems = new Map();
    this.unseen = false;
    this.redrawing = false;
    this.make();
    this.rows = new EntryView({
      context: () => ({ conversation: this.reader.conversation, record: this.record, posts: app.posts }),
      onReply: (entry, label) => this.composer.reply({ id: entry.base?.id ?? entry.latest.id, label }),
      onChoose: (entry, option) => this.choose(entry, option),
      onJump: (entry) => this.jump(entry),
      onChanged: (entry) => {
        entry.revision += 1;
        this.draw();
      },
      onAgain: (post) => this.again(post),
      onDismiss: (post) => {
        app.posts.forget(post.run);
        this.composer.text.focus();
      },
    });
    this.list = new VirtualList(this.scroller, {
      signature: (item, before) => this.rows.signature(item, before),
      draw: (item, before) => this.rows.draw(item, before),
      onView: (view) => this.viewed(view),
    });
    document.addEventListener("visibilitychange", () => this.seen());
  }

  make() {
    this.title = h("h2", { tabindex: "-1" });
    this.state = h("p", { class: "conversation-state", role: "status" });
    this.retry = h("button", { type: "button", hidden: true, onclick: () => this.reader.open() }, t("again"));
    this.scroller = h("div", { class: "scroller", role: "feed", tabindex: "0", "aria-label": t("messages") });
    this.toBottom = h("button", { type: "button", class: "to-bottom", hidden: true, onclick: () => this.list.toBottom() });
    this.activity = h("p", { class: "activity", hidden: true });
    this.composer = new Composer({ onSend: (message) => this.send(message) });
    this.element = h(
      "section",
      { class: "conversation", hidden: true },
      h(
        "header",
        { class: "conversation-head" },
        h("button", { type: "button", class: "back quiet", "aria-label": t("back"), onclick: () => this.app.onBack() }, "‹"),
        this.title,
        h("button", { type: "button", class: "bind", onclick: () => this.app.onBind(this.record.id) }, t("bind")),
      ),
      h("div", { class: "stage" }, this.scroller, h("div", { class: "middle" }, this.state, this.retry), this.toBottom),
      this.activity,
      this.composer.element,
    );
  }

  /** Shows a record from its newest message. */
  open(record) {
    this.reader?.close();
    this.record = record;
    this.unseen = false;
    this.element.hidden = false;
    this.reader = new Reader({
      request: this.app.request,
      record: record.id,
      selfId: selfOf(record),
      onChange: (reader, change) => this.changed(reader, change),
      onReset: () => this.app.notices.tell(t("historyReset", plainName(this.record.title))),
    });
    this.composer.open(record.id, plainName(record.title));
    this.update(record);
    this.list.restart([]);
    if (record.head !== null) this.reader.headMoved(record.head);
    this.reader.open();
  }

  close() {
    this.reader?.close();
    this.reader = this.record = null;
    this.element.hidden = true;
  }

  /** The record changed: its title, what its Bot does. */
  update(record) {
    this.record = record;
    const name = plainName(record.title);
    const renamed = this.title.textContent !== name;
    say(this.title, name);
    this.element.setAttribute("aria-label", t("conversation", name));
    if (renamed) {
      this.composer.rename(name);
      for (const entry of this.reader.conversation.entries) entry.revision += 1;
      this.draw();
    }
    const { activity, failure } = record;
    this.activity.hidden = activity === null && !failure;
    this.activity.classList.toggle("failed", activity === null);
    say(this.activity, activity !== null ? plainName(activity.status) : failure ? t("turnFailed", failure.summary || failure.code) : "");
  }

  changed(reader, { fresh, live }) {
    if (reader !== this.reader) return;
    this.app.posts.tidy(this.record.id, (id) => reader.conversation.find(id) !== undefined);
    if (live && fresh.length > 0) {
      if (!this.list.pinned) this.unseen = true;
      this.announce(fresh);
    }
    this.draw();
  }

  announce(fresh) {
    const { conversation } = this.reader;
    // After a long absence only the last few are worth hearing.
    for (const entry of fresh.slice(-3)) {
      if (conversation.isOwn(entry) || entry.deleted) continue;
      this.app.notices.announce(t("said", plainName(nameOf(this.record, entry.first.from)), summary(entry.text, 200)));
    }
  }

  /** Draws what is held now. */
  draw() {
    if (this.reader === null) return;
    const { reader } = this;
    const { entries } = reader.conversation;
    const items = [...this.heading(), ...entries, ...this.pending()];
    this.list.set(items);
    const busy = reader.state === "loading" || reader.readingOlder || reader.readingNewer;
    this.scroller.setAttribute("aria-busy", String(busy));
    const states = {
      loading: t("loadingHistory"),
      waiting: t("notReady"),
      failed: t("readFailed", withLocalTimes(reader.error ?? "")),
      ready: entries.length === 0 ? t("empty") : "",
    };
    say(this.state, entries.length > 0 && reader.state !== "failed" ? "" : states[reader.state]);
    this.retry.hidden = reader.state !== "failed";
  }

  /** The line above the oldest message. */
  heading() {
    const { reader } = this;
    if (reader.state !== "ready" || reader.conversation.entries.length === 0) return [];
    const text = reader.moreBefore ? t("older") : t("beginning");
    if (this.line?.text !== text) this.line = { key: "line", kind: "line", floating: true, text };
    return [this.line];
  }

  /** What was sent and isn't in the conversation yet, or won't be. Answers to questions are shown at the question. */
  pending() {
    const posts = this.app.posts.of(this.record.id).filter((post) => post.widget === null);
    const items = posts.map((post) => this.postItems.get(post.run) ?? { key: `post:${post.run}`, kind: "post", post });
    this.postItems = new Map(items.map((item) => [item.post.run, item]));
    return items;
  }

  postsChanged(record) {
    if (record !== this.record?.id) return;
    this.app.posts.tidy(record, (id) => this.reader.conversation.find(id) !== undefined);
    this.draw();
  }

  viewed({ atBottom, nearTop }) {
    if (this.reader === null) return;
    if (atBottom) this.unseen = false;
    this.toBottom.hidden = atBottom;
    say(this.toBottom, `↓ ${this.unseen ? t("newBelow") : t("toNewest")}`);
    this.seen();
    // Not in the middle of what brought us here.
    if (nearTop && this.reader.moreBefore) queueMicrotask(() => this.reader?.older());
  }

  /** What is on the screen has been looked at. */
  seen() {
    const newest = this.reader?.conversation.newest;
    if (newest && this.list.pinned && document.visibilityState === "visible") this.app.onSeen(this.record.id, newest);
  }

  jump(entry) {
    const row = this.list.show(entry);
    const article = row?.querySelector("article");
    article?.focus({ preventScroll: true });
  }

  send({ text, replyTo }) {
    if (!this.app.isConnected()) return t("notConnected");
    this.app.posts.send(this.app.request, { record: this.record.id, text, replyTo });
    this.list.toBottom();
    return null;
  }

  choose(entry, option) {
    if (!this.app.isConnected()) return this.app.notices.tell(t("notConnected"));
    this.forgetAnswers(entry.key);
    this.app.posts.send(this.app.request, {
      record: this.record.id,
      text: option.label,
      replyTo: entry.base?.id ?? entry.latest.id,
      widget: entry.key,
    });
  }

  /** Answers to a question that failed: another one is given. */
  forgetAnswers(key) {
    for (const post of this.app.posts.of(this.record.id)) if (post.widget === key) this.app.posts.forget(post.run);
  }

  /** A new run, since the person says so. */
  again(post) {
    if (!this.app.isConnected()) return this.app.notices.tell(t("notConnected"));
    this.app.posts.forget(post.run);
    this.send({ text: post.text, replyTo: post.replyTo });
    this.composer.text.focus();
  }
}
