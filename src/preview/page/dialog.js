// Modal dialogs, on the browser's own element: focus, Escape and the inert rest are its business.

import { h } from "./dom.js";
import { t } from "./texts.js";

/** Shows a dialog until it is closed; then it is gone. */
export function open(title, ...content) {
  const id = `dialog-${crypto.randomUUID()}`;
  const dialog = h("dialog", { "aria-labelledby": id }, h("h2", { id }, title), ...content);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Asks whether something is to be done. */
export function confirm(text, label) {
  return new Promise((resolve) => {
    let sure = false;
    const yes = () => {
      sure = true;
      dialog.close();
    };
    const dialog = open(
      text,
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", onclick: () => dialog.close() }, t("cancel")),
        h("button", { type: "button", class: "primary", onclick: yes }, label),
      ),
    );
    dialog.addEventListener("close", () => resolve(sure));
  });
}
