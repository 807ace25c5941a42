// Writing a message. Enter sends and Shift+Enter breaks; while an input method is composing, every key is its own.

import { h, say } from "./dom.js";
import { t } from "./texts.js";

/** The provider takes as much, in bytes of UTF-8. */
const LIMIT = 200 * 1024;

export class Composer {
  /** `onSend({text, replyTo})` gives null when it took the text, else why not. */
  constructor({ onSend }) {
    this.onSend = onSend;
    this.record = null;
    /** What was begun for records that aren't open. */
    this.drafts = new Map();
    this.replyTo = null;
    this.text = h("textarea", {
      rows: "1",
      "aria-describedby": "composer-hint",
      enterkeyhint: "send",
      oninput: () => this.changed(),
      onkeydown: (event) => this.key(event),
    });
    this.label = h("label", { class: "unseen", for: "composer-text" });
    this.text.id = "composer-text";
    this.button = h("button", { type: "submit", class: "primary" }, t("send"));
    this.hint = h("p", { id: "composer-hint", class: "hint" }, t("writeHint"));
    this.problem = h("p", { class: "problem", role: "alert" });
    this.answering = h("div", { class: "answering", hidden: true });
    this.element = h(
      "form",
      { class: "composer", onsubmit: (event) => this.submit(event) },
      this.answering,
      this.label,
      h("div", { class: "write" }, this.text, this.button),
      this.problem,
      this.hint,
    );
  }

  /** Shows the composer of a record, with what was begun there. */
  open(record, name) {
    if (this.record !== null) this.drafts.set(this.record, { text: this.text.value, replyTo: this.replyTo });
    const draft = this.drafts.get(record) ?? { text: "", replyTo: null };
    this.record = record;
    this.rename(name);
    this.text.value = draft.text;
    this.reply(draft.replyTo, false);
    say(this.problem, "");
    this.changed();
  }

  rename(name) {
    say(this.label, t("writeTo", name));
    this.text.placeholder = t("writeTo", name);
  }

  /** `target` is `{id, label}` of the message that is answered, or null. */
  reply(target, focus = true) {
    this.replyTo = target;
    this.answering.hidden = target === null;
    if (target !== null) {
      const stop = () => this.reply(null);
      const button = h("button", { type: "button", class: "quiet", "aria-label": t("noReply"), title: t("noReply"), onclick: stop }, "✕");
      this.answering.replaceChildren(h("span", null, target.label), button);
    }
    if (focus) this.text.focus();
  }

  changed() {
    const blank = this.text.value.trim() === "";
    this.button.setAttribute("aria-disabled", String(blank));
    this.fit();
    if (this.problem.textContent !== "") say(this.problem, "");
  }

  /** As high as its text, up to what the style allows. */
  fit() {
    this.text.style.height = "auto";
    this.text.style.height = `${this.text.scrollHeight + 2}px`;
  }

  key(event) {
    if (event.key === "Escape" && this.replyTo !== null && !event.isComposing) {
      this.reply(null);
      return;
    }
    if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.altKey || event.metaKey) return;
    // 229: the key belongs to the input method, also where its composition ended just before this event.
    if (event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    this.submit(event);
  }

  submit(event) {
    event.preventDefault();
    const text = this.text.value;
    if (text.trim() === "") return;
    if (new TextEncoder().encode(text).length > LIMIT) return this.refuse(t("tooLong"));
    const problem = this.onSend({ text, replyTo: this.replyTo?.id ?? null });
    if (problem !== null) return this.refuse(problem);
    this.text.value = "";
    this.drafts.delete(this.record);
    this.reply(null);
    this.changed();
  }

  refuse(problem) {
    say(this.problem, problem);
  }
}
