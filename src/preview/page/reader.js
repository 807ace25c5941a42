// Reads one record: the newest page, older ones on demand, newer ones as the head moves. Answers of a life of the history that is over are dropped.

import { Conversation } from "./conversation.js";
import { isAfter, sameLife } from "./cursor.js";

const PAGE = 100;
const OLDER_PAGE = 200;
const BIG_PAGE = 500;
/** While a record can't be read yet: it is told when it has a head, but an empty one never has. */
const RETRY = 700;

export class Reader {
  /** `onChange(reader, {fresh, live})` after each change; `onReset(reader)` when the history begins anew. */
  constructor({ request, record, selfId, onChange, onReset }) {
    Object.assign(this, { request, record, onChange, onReset });
    this.conversation = new Conversation(selfId);
    /** loading, waiting (not ready), ready, failed. */
    this.state = "loading";
    this.error = null;
    this.life = 0;
    this.head = null;
    this.readingNewer = false;
    this.readingOlder = false;
    this.timer = null;
  }

  get moreBefore() {
    return this.conversation.moreBefore;
  }

  /** The newest page. */
  async open() {
    clearTimeout(this.timer);
    const life = ++this.life;
    this.readingNewer = this.readingOlder = false;
    if (this.state !== "waiting") this.set("loading");
    const page = await this.read({ limit: PAGE }, life);
    if (page === null) return;
    this.conversation.clear();
    this.take(page, { live: false });
    this.conversation.moreBefore = page.hasMore.before;
    this.set("ready");
    this.catchUp();
  }

  /** The page before what is held. */
  async older() {
    if (this.state !== "ready" || this.readingOlder || !this.conversation.moreBefore || this.conversation.oldest === null) return;
    this.readingOlder = true;
    const life = this.life;
    this.onChange(this, { fresh: [], live: false });
    const page = await this.read({ before: this.conversation.oldest, limit: OLDER_PAGE }, life);
    if (page === null) return;
    this.readingOlder = false;
    this.conversation.moreBefore = page.hasMore.before;
    this.take(page, { live: false });
  }

  /** `session/head`. */
  headMoved(head) {
    if (head === null) return this.reset();
    const { newest } = this.conversation;
    if (newest !== null && !sameLife(head, newest)) return this.reset();
    if (this.head === null || !sameLife(head, this.head) || isAfter(head, this.head)) this.head = head;
    if (this.state === "waiting") this.resume();
    else this.catchUp();
  }

  /** A new connection: what came meanwhile is read, and a history that was reset is noticed. */
  reconnected() {
    this.readingNewer = this.readingOlder = false;
    this.life += 1;
    this.resume();
  }

  /** Goes on from what is held; from the newest page where that is nothing. */
  resume() {
    clearTimeout(this.timer);
    if (this.conversation.newest !== null) this.readNewer(true);
    else this.open();
  }

  catchUp() {
    if (this.state === "ready" && isAfter(this.head, this.conversation.newest)) this.readNewer(false);
  }

  async readNewer(atLeastOnce) {
    if (this.readingNewer) return;
    this.readingNewer = true;
    const life = this.life;
    let again = atLeastOnce;
    while (again || isAfter(this.head, this.conversation.newest)) {
      const { newest } = this.conversation;
      const page = await this.read({ ...(newest !== null && { after: newest }), limit: BIG_PAGE }, life);
      if (page === null) return;
      if (page.head !== null && isAfter(page.head, this.head)) this.head = page.head;
      this.state = "ready";
      this.take(page, { live: true });
      again = page.hasMore.after;
      // A head that no message carries is followed no further.
      if (page.messages.length === 0 && !again) break;
    }
    this.readingNewer = false;
  }

  /** A page, or null where the answer is of no use any more or the state has been set. */
  async read(bounds, life) {
    try {
      const page = await this.request("session/read", { record: this.record, ...bounds });
      return life === this.life ? page : null;
    } catch (error) {
      if (life !== this.life) return null;
      this.readingNewer = this.readingOlder = false;
      this.failed(error);
      return null;
    }
  }

  failed(error) {
    switch (error.kind) {
      // A provider that has just been started doesn't know its records yet, or hasn't read their histories.
      case "not_ready":
      case "record_not_found":
        clearTimeout(this.timer);
        this.set("waiting");
        this.timer = setTimeout(() => this.resume(), RETRY);
        break;
      case "history_reset":
        this.reset();
        break;
      // The next connection goes on from here.
      case "connection_lost":
      case "not_connected":
        break;
      default:
        this.error = error.message;
        this.set("failed");
    }
  }

  reset() {
    const had = this.conversation.entries.length > 0;
    this.conversation.clear();
    this.head = null;
    if (had) this.onReset(this);
    this.open();
  }

  take(page, { live }) {
    const fresh = this.conversation.add(page.messages);
    this.onChange(this, { fresh, live, changed: page.messages });
  }

  set(state) {
    this.state = state;
    this.onChange(this, { fresh: [], live: false });
  }

  close() {
    this.life += 1;
    clearTimeout(this.timer);
  }
}
