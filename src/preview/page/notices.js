// What happened, in one line: said to the screen reader, shown a while. One standing line (the connection) and passing ones.

import { h, say } from "./dom.js";

const SHOWN = 8_000;

export class Notices {
  constructor() {
    this.standing = h("p", { class: "standing", role: "status" });
    this.passing = h("p", { class: "passing", role: "status" });
    this.element = h("div", { class: "notices" }, this.standing, this.passing);
    /** For the screen reader alone. */
    this.heard = h("p", { class: "unseen", role: "log", "aria-live": "polite" });
    this.timer = null;
  }

  /** What is so until it changes; empty for nothing. */
  stand(text, kind = "warn") {
    say(this.standing, text);
    this.standing.className = text === "" ? "standing" : `standing ${kind}`;
  }

  /** What has happened. */
  tell(text) {
    clearTimeout(this.timer);
    say(this.passing, text);
    this.timer = setTimeout(() => say(this.passing, ""), SHOWN);
  }

  /** What the screen reader is told besides what is shown. */
  announce(text) {
    // Old lines are of no use to anybody; a few are kept so that a quick sequence is read whole.
    while (this.heard.childElementCount >= 5) this.heard.firstElementChild.remove();
    this.heard.append(h("span", null, text));
  }
}
