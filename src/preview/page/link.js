// The connection with the provider: the key, the WebSocket, coming back by itself.

import { Peer } from "./rpc.js";

/** What the server accepts as a subprotocol; the key goes beside it, in a header and never in an address. */
const PROTOCOL = "coda-grok-bot.host";
const FIRST_WAIT = 200;
const LONGEST_WAIT = 4_000;

export class Link {
  /**
   * `openRuns()` gives the runs without an end; `onOpen(peer, {restarted, first})` is told after each `initialize`, `onClose()` when a connection that
   * was open is lost, `onRefused("key")` when the key isn't accepted, `onUnreachable()` after a try that failed.
   */
  constructor({ key, openRuns, onOpen, onClose, onRefused, onUnreachable, onNotification, onRequest }) {
    Object.assign(this, { key, openRuns, onOpen, onClose, onRefused, onUnreachable, onNotification, onRequest });
    this.peer = null;
    this.process = null;
    this.wait = FIRST_WAIT;
    this.timer = null;
    this.trying = false;
    for (const event of ["online", "focus", "visibilitychange"]) addEventListener(event, () => this.hurry());
  }

  /** A request of the page to its own server, beside the contract. */
  async ask(path, body) {
    const headers = { "x-preview-key": this.key };
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await fetch(path, { method: "POST", headers, body: body === undefined ? undefined : JSON.stringify(body) });
    if (answer.status === 403) throw Object.assign(new Error("refused"), { refused: true });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.json();
  }

  async connect() {
    if (this.trying || this.peer !== null) return;
    clearTimeout(this.timer);
    this.trying = true;
    try {
      await this.tryOnce();
      this.wait = FIRST_WAIT;
    } catch (error) {
      if (error.refused) {
        this.onRefused();
        return;
      }
      this.onUnreachable();
      this.timer = setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    } finally {
      this.trying = false;
    }
  }

  hurry() {
    // A return to the page is a good moment; a connection under way is left alone.
    if (document.visibilityState === "visible" && this.peer === null && this.process !== null) this.connect();
  }

  async tryOnce() {
    // A refused WebSocket doesn't tell why; this does, and it names the process.
    const hello = await this.ask("/host/hello");
    const socket = new WebSocket(`ws://${location.host}/host`, [PROTOCOL, `key.${this.key}`]);
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve, { once: true });
      socket.addEventListener("close", () => reject(new Error("not opened")), { once: true });
    });
    const { onNotification, onRequest } = this;
    const peer = new Peer({ send: (text) => socket.send(text), onNotification, onRequest });
    socket.addEventListener("message", ({ data }) => peer.receive(data));
    const closed = new Promise((resolve) => socket.addEventListener("close", resolve, { once: true }));
    closed.then(() => peer.close());
    const openRuns = this.openRuns();
    await peer.request("initialize", {
      protocolVersion: "5.7.0",
      host: { name: "preview page", version: hello.version },
      ...(openRuns.length > 0 && { openRuns }),
    });
    const first = this.process === null;
    const restarted = !first && this.process !== hello.process;
    this.process = hello.process;
    this.peer = peer;
    closed.then(() => {
      this.peer = null;
      this.onClose();
      this.connect();
    });
    this.onOpen(peer, { first, restarted, hello });
  }

  /** A request over the contract. */
  request(method, params) {
    return this.peer === null ? Promise.reject(Object.assign(new Error(), { kind: "not_connected" })) : this.peer.request(method, params);
  }
}
