// The bind view: one opening, one request, one answer.

import { h, plainName, say } from "./dom.js";
import { open } from "./dialog.js";
import { t } from "./texts.js";
import { withLocalTimes } from "./when.js";

/** Opens the view for a record; `request` is the contract's. */
export async function openBind({ request, record, title, demo }) {
  const said = h("p", { class: "bind-status", role: "status" }, t("binding"));
  const hint = h("p", { class: "hint", hidden: true }, t("bindDemo"));
  const dialog = open(
    t("bindTitle", plainName(title)),
    said,
    hint,
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, t("close"))),
  );
  try {
    const { text } = await request("view/open", { view: "bind", args: [record] });
    said.classList.add("good");
    say(said, text);
    hint.hidden = !demo;
  } catch (error) {
    said.classList.add("bad");
    const texts = { connection_lost: t("bindUnsure"), not_connected: t("notConnected") };
    say(said, texts[error.kind] ?? withLocalTimes(error.message));
  }
}
