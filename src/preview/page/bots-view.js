// The list of Bots: one row a record.

import { h, plainName, say } from "./dom.js";
import { summary } from "./markdown.js";
import { t } from "./texts.js";

export class BotsView {
  /** `onOpen(id)`: the row was chosen; `onBind(id)`: its button was pressed. */
  constructor({ onOpen, onBind }) {
    Object.assign(this, { onOpen, onBind });
    this.list = h("ul", { class: "bots" });
    this.none = h("p", { class: "hint", hidden: true }, t("noBots"));
    this.element = h("nav", { "aria-label": t("bots") }, h("h2", null, t("bots")), this.none, this.list);
    this.rows = new Map();
  }

  /** Shows the records; `open` is the one that is being looked at. `settled`: there are no more to come at once. */
  set(records, open, settled) {
    for (const [id, { element }] of this.rows) {
      if (records.has(id)) continue;
      element.remove();
      this.rows.delete(id);
    }
    let place = this.list.firstElementChild;
    for (const record of records.values()) {
      let row = this.rows.get(record.id);
      if (row === undefined) {
        row = this.make(record.id);
        this.rows.set(record.id, row);
      }
      if (row.element === place) place = place.nextElementSibling;
      else this.list.insertBefore(row.element, place);
      this.fill(row, record, record.id === open);
    }
    this.none.hidden = !(settled && records.size === 0);
  }

  make(id) {
    const title = h("bdi", { class: "bot-title" });
    const now = h("span", { class: "bot-now", dir: "auto" });
    const unread = h("span", { class: "unread", hidden: true });
    const choose = h(
      "button",
      { type: "button", class: "bot", onclick: () => this.onOpen(id) },
      h("span", { class: "avatar", "aria-hidden": "true" }),
      h("span", { class: "bot-lines" }, title, now),
      unread,
    );
    const bind = h("button", { type: "button", class: "bind", onclick: () => this.onBind(id) }, t("bind"));
    return { element: h("li", { "data-record": id }, choose, bind), choose, bind, title, now, unread };
  }

  fill(row, record, open) {
    const name = plainName(record.title);
    say(row.title, name);
    say(row.choose.querySelector(".avatar"), [...name][0] ?? "");
    row.choose.querySelector(".avatar").dataset.hue = hue(record.id);
    row.bind.setAttribute("aria-label", t("bindLabel", name));
    if (open) row.choose.setAttribute("aria-current", "true");
    else row.choose.removeAttribute("aria-current");
    row.now.classList.toggle("busy", record.activity !== null);
    const preview = record.preview && `${record.preview.own ? `${t("you")}：` : ""}${summary(record.preview.text, 60)}`;
    say(row.now, record.activity === null ? (preview ?? "") : plainName(record.activity.status));
    row.unread.hidden = record.unread === 0;
    if (record.unread > 0 && row.unread.dataset.count !== String(record.unread)) {
      row.unread.dataset.count = record.unread;
      const count = record.unread >= 99 ? "99+" : String(record.unread);
      row.unread.replaceChildren(
        h("span", { "aria-hidden": "true" }, count),
        h("span", { class: "unseen" }, t("unread", count)),
      );
    }
  }
}

/** One of a few colours, the same for the same record. */
function hue(id) {
  let sum = 0;
  for (const sign of id) sum = (sum * 31 + sign.codePointAt(0)) % 6;
  return sum;
}
