// What the person sends: one run each, sent once, settled once. Kept in the session's storage, so that a reload doesn't forget an open run.

/** A random UUID. */
const uuid = () => crypto.randomUUID();

export class Posts {
  /** `storage` is one like sessionStorage; `onChange(record)` is told of every change. */
  constructor({ storage, onChange }) {
    this.storage = storage;
    this.onChange = onChange;
    /** In the order of sending. */
    this.all = [];
    /** Messages that were sent from here. */
    this.sentIds = new Set();
    try {
      const kept = JSON.parse(storage.getItem("posts") ?? "[]");
      if (Array.isArray(kept)) this.all = kept.filter((post) => typeof post?.run === "string");
    } catch {
      // Not ours, or cut short: nothing to go on.
    }
  }

  of(record) {
    return this.all.filter((post) => post.record === record);
  }

  /** The runs that have no end yet, as `initialize` tells them. */
  openRuns() {
    return this.all.filter((post) => post.state === "sending").map(({ run, record }) => ({ id: run, record }));
  }

  /** Sends a text; `request` is the contract's, `widget` the key of the question that it answers. Resolves when the request was answered; its outcome shows in `state`. */
  async send(request, { record, text, replyTo = null, widget = null }) {
    const post = { run: uuid(), requestId: uuid(), record, text, replyTo, widget, at: Date.now(), state: "sending" };
    this.all.push(post);
    this.changed(post);
    try {
      await request("session/post", {
        record,
        run: { id: post.run },
        caller: "preview-page",
        requestId: post.requestId,
        text,
        ...(replyTo !== null && { replyTo }),
      });
    } catch (error) {
      // A lost connection leaves the run open: the next `initialize` names it, and the provider settles it.
      if (error.kind === "connection_lost") return;
      // Nothing was sent.
      this.end(post, "failed", { reason: error.kind, message: error.message });
    }
  }

  /** `run/settled`. */
  settled({ run, state, reason, message, result }) {
    const post = this.all.find((candidate) => candidate.run === run);
    if (post === undefined || post.state !== "sending") return;
    if (state === "completed") this.end(post, "sent", { message: null, id: result.message.id });
    else this.end(post, reason === "unknown" ? "unknown" : "failed", { reason, message });
  }

  end(post, state, { reason = null, message, id = null }) {
    Object.assign(post, { state, reason, message, id });
    this.changed(post);
  }

  /** Forgets a post: it is in the conversation, or the person has read what became of it. */
  forget(run) {
    const post = this.all.find((candidate) => candidate.run === run);
    if (post === undefined) return;
    this.all = this.all.filter((candidate) => candidate !== post);
    this.changed(post);
  }

  /** Forgets what is sent and seen: `isHeld(record, id)` says that a message is in the conversation. */
  tidy(record, isHeld) {
    const before = this.all.length;
    this.all = this.all.filter((post) => {
      const seen = post.record === record && post.state === "sent" && isHeld(post.id);
      if (seen) this.sentIds.add(post.id);
      return !seen;
    });
    if (this.all.length !== before) this.store();
  }

  changed(post) {
    this.store();
    this.onChange(post.record);
  }

  store() {
    try {
      this.storage.setItem("posts", JSON.stringify(this.all));
    } catch {
      // Full or forbidden: a reload will not know of open runs.
    }
  }
}
