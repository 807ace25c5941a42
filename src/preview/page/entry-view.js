// How one message is drawn. Names, texts and files are somebody else's: they become text nodes or go through `markdown`.

import { h, plainName } from "./dom.js";
import { render, summary } from "./markdown.js";
import { t } from "./texts.js";
import { clock, day, dayOf, exact, size, withLocalTimes } from "./when.js";

export class EntryView {
  /**
   * `context()` gives `{conversation, record, posts, connected}` of what is shown; the rest are wishes of the person: `onReply(entry, label)`,
   * `onChoose(entry, option)`, `onJump(entry)`, `onChanged(entry)` (drawn differently from now on), `onAgain(post)`, `onDismiss(post)`.
   */
  constructor(wishes) {
    Object.assign(this, wishes);
  }

  signature(item, before) {
    const dayLine = this.dayOf(item) !== this.dayOf(before);
    if (item.kind === "line") return `line|${item.text}`;
    if (item.kind === "post") return `post|${item.post.state}|${item.post.message}|${dayLine}`;
    const { posts, conversation } = this.context();
    const asked = item.meta?.widget ? this.answering(item) : null;
    const state = asked === null ? "" : `${asked?.run}${asked?.state}${asked?.message}${conversation.chosen(item)?.label}`;
    return `entry|${item.revision}|${item.open}|${item.expanded}|${dayLine}|${posts.sentIds.has(item.key)}|${state}`;
  }

  dayOf(item) {
    if (item === undefined || item.kind === "line") return null;
    return dayOf(this.at(item));
  }

  at(item) {
    return new Date(item.kind === "post" ? item.post.at : item.first.at);
  }

  draw(item, before) {
    if (item.kind === "line") return [h("div", { class: "line" }, item.text)];
    const date = this.dayOf(item) === this.dayOf(before) ? [] : [h("div", { class: "day" }, h("span", null, day(this.at(item))))];
    return [...date, item.kind === "post" ? this.post(item.post) : this.entry(item)];
  }

  name(id) {
    const { record } = this.context();
    const participant = record.participants.find((candidate) => candidate.id === id);
    return participant === undefined ? id : plainName(participant.name);
  }

  time(date) {
    return h("time", { datetime: date.toISOString(), title: exact(date) }, clock(date));
  }

  entry(entry) {
    const { conversation, posts } = this.context();
    const own = conversation.isOwn(entry);
    const name = this.name(entry.first.from);
    const marks = [];
    if (entry.edited && !entry.deleted) marks.push(this.editedMark(entry));
    if (posts.sentIds.has(entry.key)) marks.push(h("span", { class: "state" }, `✓ ${t("sent")}`));
    const label = `${name}：${entry.deleted ? t("deleted") : summary(said(entry), 40)}`;
    return h(
      "article",
      {
        class: `message ${own ? "own" : "other"}`,
        "data-message": entry.key,
        "aria-posinset": entry.index + 1,
        "aria-setsize": conversation.moreBefore ? -1 : conversation.entries.length,
        "aria-label": label,
        tabindex: "-1",
      },
      h("header", null, h("bdi", { class: "name" }, name), " ", this.time(this.at(entry)), " ", ...marks, entry.deleted ? null : this.tools(entry, name)),
      this.quote(entry),
      h("div", { class: "body" }, ...this.body(entry)),
      entry.open && entry.edited && !entry.deleted ? this.earlier(entry) : null,
    );
  }

  body(entry) {
    if (entry.deleted) return [h("p", { class: "gone" }, t("deleted"))];
    if (entry.meta?.widget) return this.widget(entry, entry.meta.widget);
    if (entry.meta?.attachment) return [attachment(entry.meta.attachment)];
    if (entry.text.trim() === "") return [h("p", { class: "gone" }, t("unreadable"))];
    const expand = () => {
      entry.expanded = true;
      this.onChanged(entry);
    };
    return [render(entry.text, { expanded: entry.expanded, expand })];
  }

  editedMark(entry) {
    const count = entry.earlier.length;
    // After a restart of the provider the earlier texts are gone for good.
    if (count === 0) return h("span", { class: "state" }, t("edited"));
    const toggle = () => {
      entry.open = !entry.open;
      this.onChanged(entry);
    };
    return h(
      "button",
      {
        type: "button",
        class: "quiet edited",
        "data-focus": "edited",
        "aria-expanded": String(entry.open === true),
        "aria-label": t("editedLabel", count),
        onclick: toggle,
      },
      t("edited"),
    );
  }

  earlier(entry) {
    return h(
      "section",
      { class: "earlier", "aria-label": t("earlier") },
      h("p", { class: "hint" }, t("earlier")),
      ...entry.earlier.map((version) => h("div", { class: "version" }, this.time(new Date(version.at)), render(version.text))),
    );
  }

  quote(entry) {
    if (entry.replyTo === null) return null;
    const original = this.context().conversation.find(entry.replyTo);
    if (original === undefined) return h("p", { class: "quote" }, t("answersUnknown"));
    return h(
      "button",
      { type: "button", class: "quote", "data-focus": "quote", onclick: () => this.onJump(original) },
      this.quoted("answers", original),
    );
  }

  quoted(text, entry) {
    const { conversation } = this.context();
    const name = conversation.isOwn(entry) ? t("you") : this.name(entry.first.from);
    return t(text, name, entry.deleted ? t("deleted") : summary(said(entry), 60));
  }

  tools(entry, name) {
    const reply = () => this.onReply(entry, this.quoted("replyTo", entry));
    return h(
      "div",
      { class: "tools" },
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "data-focus": "reply",
          "aria-label": t("replyLabel", name, summary(said(entry), 30)),
          onclick: reply,
        },
        t("reply"),
      ),
    );
  }

  /** The last post that answers a question and isn't seen as its answer yet; undefined for none. */
  answering(entry) {
    const { record, posts } = this.context();
    return posts.of(record.id).findLast((post) => post.widget === entry.key);
  }

  widget(entry, { options }) {
    const chosen = this.context().conversation.chosen(entry);
    const answer = this.answering(entry);
    const waiting = chosen === null && (answer?.state === "sending" || answer?.state === "sent");
    const closed = answer?.state === "failed" && answer.reason === "widget_closed";
    const buttons = options.map((option, index) => {
      const picked = chosen !== null && chosen.label === option.label && chosen.value === option.value;
      return h(
        "button",
        {
          type: "button",
          class: picked ? "option picked" : "option",
          "data-focus": `option-${index}`,
          "aria-pressed": chosen === null ? null : String(picked),
          "aria-disabled": chosen !== null || waiting || closed ? "true" : null,
          onclick: () => {
            if (chosen === null && !waiting && !closed) this.onChoose(entry, option);
          },
        },
        h("bdi", null, option.label),
      );
    });
    const under = [];
    if (chosen !== null) under.push(h("p", { class: "state" }, `✓ ${t("chosen", chosen.label)}`));
    else if (waiting) under.push(h("p", { class: "state" }, t("choosing")));
    else if (answer !== undefined) {
      under.push(h("p", { class: "problem" }, withLocalTimes(answer.message || t("notConnected"))));
      if (answer.state === "unknown") under.push(h("p", { class: "hint" }, t("unknownHint")));
    }
    return [render(question(entry.text, options)), h("div", { class: "options", role: "group", "aria-label": t("options") }, ...buttons), ...under];
  }

  post(post) {
    const failed = post.state === "failed";
    const unsure = post.state === "unknown";
    const again = failed || unsure;
    const message = post.message ? withLocalTimes(post.message) : failed ? t("notConnected") : "";
    return h(
      "article",
      { class: `message own post ${post.state}`, "data-run": post.run, tabindex: "-1", "aria-label": `${t("you")}：${summary(post.text, 40)}` },
      h("header", null, h("span", { class: "name" }, t("you")), " ", this.time(new Date(post.at)), " ", h("span", { class: "state" }, t(post.state))),
      h("div", { class: "body" }, render(post.text)),
      again ? h("p", { class: "problem" }, message) : null,
      unsure ? h("p", { class: "hint" }, t("unknownHint")) : null,
      again
        ? h(
            "div",
            { class: "tools" },
            h("button", { type: "button", class: "quiet", "data-focus": "again", onclick: () => this.onAgain(post) }, t("sendAgain")),
            h("button", { type: "button", class: "quiet", "data-focus": "dismiss", onclick: () => this.onDismiss(post) }, t("dismiss")),
          )
        : null,
    );
  }
}

/** What a message says in short: a question without its options. */
function said(entry) {
  return entry.meta?.widget?.prompt ?? entry.text;
}

/** A widget's text without the options at its end: they are buttons. */
function question(text, options) {
  const lines = text.split("\n");
  const tail = lines.slice(-options.length);
  const listed = options.length > 0 && tail.length === options.length && tail.every((line) => line.startsWith("- "));
  return (listed ? lines.slice(0, -options.length) : lines).join("\n");
}

function attachment({ name, size: bytes }) {
  return h(
    "p",
    { class: "attachment" },
    h("span", { "aria-hidden": "true" }, "📎 "),
    h("bdi", null, plainName(name)),
    bytes === undefined ? null : h("span", { class: "hint" }, ` ${size(bytes)}`),
  );
}
