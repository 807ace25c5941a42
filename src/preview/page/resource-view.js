// The resource: who is signed in, and how to sign in.

import { confirm } from "./dialog.js";
import { h, outside, say } from "./dom.js";
import { t } from "./texts.js";
import { left, withLocalTimes } from "./when.js";

export class ResourceView {
  /** `request` is the contract's; `qr(text)` gives rows of booleans; `tell(text)` shows what went wrong. */
  constructor({ request, qr, tell }) {
    Object.assign(this, { request, qr, tell });
    this.status = null;
    this.element = h("section", { class: "resource", "aria-label": t("account") });
    this.timer = null;
    this.shown = null;
    this.busy = false;
  }

  /** `resource/changed`, or the answer of `resource/status`. */
  set(status) {
    this.status = status;
    // Items are the list's business; what isn't shown here changes nothing, above all not the focus.
    const { state, account, url, expiresAt, message } = status;
    const shown = JSON.stringify([state, account, url, expiresAt, message]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.draw();
  }

  draw() {
    clearInterval(this.timer);
    const { state } = this.status;
    const had = this.element.contains(document.activeElement);
    const parts = { signedOut: () => this.signedOut(), confirming: () => this.confirming() };
    this.element.dataset.state = state;
    this.element.replaceChildren(...(parts[state] ?? (() => this.signedIn()))());
    // What had the focus is gone: the next thing to do has it.
    if (had) this.element.querySelector("button, a")?.focus();
  }

  message(fallback = "") {
    const text = withLocalTimes(this.status.message ?? fallback);
    return h("p", { class: "resource-message", role: "status" }, text);
  }

  button(label, act, properties) {
    const press = async () => {
      if (this.busy) return;
      this.busy = true;
      button.setAttribute("aria-busy", "true");
      try {
        await act();
      } catch (error) {
        this.tell(error.kind === "connection_lost" || error.kind === "not_connected" ? t("lost") : withLocalTimes(error.message));
      } finally {
        this.busy = false;
        button.removeAttribute("aria-busy");
      }
    };
    const button = h("button", { type: "button", onclick: press, ...properties }, label);
    return button;
  }

  signInButton(label) {
    return this.button(label, () => this.request("resource/signIn"), { class: "primary" });
  }

  who() {
    const { account } = this.status;
    return account ? [h("p", { class: "who" }, t("signedInAs", account.name))] : [];
  }

  signedOut() {
    return [
      h("h2", null, t("signedOut")),
      h("p", { class: "hint" }, t("signedOutHint")),
      this.message(),
      this.signInButton(t("signIn")),
    ];
  }

  signedIn() {
    const again = this.status.state === "signInAgain";
    const signOut = async () => {
      if (await confirm(t("signOutSure"), t("signOut"))) await this.request("resource/signOut");
    };
    return [
      h(
        "div",
        { class: "who-line" },
        ...this.who(),
        this.button(t("signOut"), signOut, { class: "quiet" }),
      ),
      this.message(),
      ...(again ? [this.signInButton(t("signInAgain"))] : []),
    ];
  }

  confirming() {
    const { url, expiresAt } = this.status;
    const time = h("span", { role: "timer" });
    const tick = () => say(time, t("timeLeft", left(new Date(expiresAt) - Date.now())));
    tick();
    this.timer = setInterval(tick, 1_000);
    const code = h("div", { class: "qr" });
    this.drawQr(url, code);
    return [
      ...this.who(),
      h("h2", null, t("confirming")),
      this.message(t("confirmingHint")),
      outside(url, { class: "button primary" }, t("openLink")),
      h("p", { class: "hint" }, t("scan")),
      code,
      h(
        "div",
        { class: "who-line" },
        time,
        this.button(t("cancel"), () => this.request("resource/cancelSignIn"), { class: "quiet" }),
      ),
    ];
  }

  async drawQr(url, frame) {
    let rows;
    try {
      rows = await this.qr(url);
    } catch {
      return; // The link above does the same.
    }
    const svg = "http://www.w3.org/2000/svg";
    const picture = document.createElementNS(svg, "svg");
    const size = rows.length + 8;
    picture.setAttribute("viewBox", `0 0 ${size} ${size}`);
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", t("qrLabel"));
    const path = document.createElementNS(svg, "path");
    const dark = rows.flatMap((row, y) => [...row].flatMap((module, x) => (module === "1" ? [`M${x + 4} ${y + 4}h1v1h-1z`] : [])));
    path.setAttribute("d", dark.join(""));
    picture.append(path);
    frame.replaceChildren(picture);
  }
}
