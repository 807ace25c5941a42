// The records: which there are, what their Bots are doing, what is unread since they were last looked at.

import { Conversation } from "./conversation.js";
import { isAfter, sameLife } from "./cursor.js";

/** As many unread messages are counted. */
const COUNTED = 99;
/** So long after a record was told, the others would have been told, too. */
const SETTLED = 3_000;
/** How long a record whose history is still being read is left before it is asked again whether there is anything in it. */
const ASK_AGAIN = 1_500;
const SEEN = "coda-grok-bot.seen";

export class Roster {
  /** `storage` is one like localStorage; `onChange(id)` is told of every change, null for the list as a whole. */
  constructor({ request, storage, onChange }) {
    Object.assign(this, { request, storage, onChange });
    /** By id, in the order in which they came. */
    this.records = new Map();
    /** The record that is being looked at. */
    this.open = null;
    try {
      // By record: the cursor up to which it was seen, null for one that was empty when it was met.
      this.seen = { ...JSON.parse(storage.getItem(SEEN) ?? "{}") };
    } catch {
      this.seen = {};
    }
  }

  /**
   * The records after a connection was made. A provider that has just been started tells them one by one as it learns of them, so what isn't among
   * them stays until others have been told for a while.
   */
  replace(records, complete) {
    for (const row of this.records.values()) row.stale = true;
    for (const record of records) this.put(record);
    if (complete) this.sweep();
    else if (records.length > 0) this.sweepLater();
    this.onChange(null);
  }

  /** Removes what the provider of this connection hasn't told. */
  sweep() {
    clearTimeout(this.timer);
    this.timer = null;
    for (const [id, row] of this.records) if (row.stale) this.records.delete(id);
    this.onChange(null);
  }

  sweepLater() {
    if (![...this.records.values()].some((row) => row.stale)) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.sweep(), SETTLED);
  }

  /** `records/put`. */
  put(record) {
    // The row stays the same object: a count that is under way goes on with it.
    const row = this.records.get(record.id) ?? { unread: 0, preview: null, counting: false, countAgain: false, failure: null };
    Object.assign(row, record, { stale: false });
    // Absent: it does nothing now.
    row.activity = record.activity ?? null;
    this.records.set(record.id, row);
    this.onChange(record.id);
    if (record.head !== null) this.headMoved(record.id, record.head);
    // Not read yet, or empty: only what is said in an empty one is all news.
    else if (this.seen[record.id] === undefined) this.count(row);
    this.sweepLater();
  }

  /** `records/withdrawn`; gives the row that was. */
  withdraw(id) {
    const row = this.records.get(id);
    this.records.delete(id);
    this.onChange(null);
    return row;
  }

  /** `session/activity`. */
  setActivity(id, activity, failure) {
    const row = this.records.get(id);
    if (row === undefined) return;
    row.activity = activity;
    row.failure = activity === null ? (failure ?? null) : null;
    this.onChange(id);
  }

  /** `session/head`. */
  headMoved(id, head) {
    const row = this.records.get(id);
    if (row === undefined) return;
    row.head = head;
    if (head === null) {
      row.unread = 0;
      row.preview = null;
      this.onChange(id);
      return;
    }
    const seen = this.seen[id];
    // Never looked at, or another life of the history: what is there now is no news.
    if (seen === undefined || (seen !== null && !sameLife(seen, head))) this.markSeen(id, head);
    this.count(row);
  }

  /** The person has seen everything up to this cursor. */
  markSeen(id, cursor) {
    const before = this.seen[id] ?? null;
    if (before !== null && sameLife(before, cursor) && !isAfter(cursor, before)) return;
    this.remember(id, cursor);
    const row = this.records.get(id);
    if (row?.unread > 0) {
      row.unread = 0;
      this.onChange(id);
    }
  }

  remember(id, cursor) {
    this.seen[id] = cursor;
    try {
      this.storage.setItem(SEEN, JSON.stringify(this.seen));
    } catch {
      // Not remembered over a reload.
    }
  }

  /** Reads the newest page of a record for its preview and its count; one read at a time for each record. */
  async count(row) {
    if (row.counting) {
      row.countAgain = true;
      return;
    }
    row.counting = true;
    do {
      row.countAgain = false;
      await this.countOnce(row.id);
    } while (row.countAgain);
    row.counting = false;
  }

  askAgain(id) {
    const row = this.records.get(id);
    if (row?.head === null && this.seen[id] === undefined) this.count(row);
  }

  async countOnce(id) {
    let page;
    try {
      page = await this.request("session/read", { record: id, limit: COUNTED });
    } catch (error) {
      // Not ready, reset or gone: the next head brings it again. An empty record has none.
      if (error.kind === "not_ready") setTimeout(() => this.askAgain(id), ASK_AGAIN);
      return;
    }
    const row = this.records.get(id);
    if (row === undefined) return;
    if (page.head === null && row.head === null && this.seen[id] === undefined) this.remember(id, null);
    const self = selfOf(row);
    const seen = this.seen[id] ?? null;
    const news = page.messages.filter(({ cursor, from, about }) => from !== self && about === undefined && isNews(cursor, seen));
    row.unread = id === this.open ? 0 : news.length;
    const conversation = new Conversation(self);
    conversation.add(page.messages);
    const last = conversation.entries.findLast((entry) => !entry.deleted);
    row.preview = last === undefined ? null : { own: conversation.isOwn(last), text: last.text };
    this.onChange(id);
  }
}

function isNews(cursor, seen) {
  return seen === null || (sameLife(cursor, seen) && isAfter(cursor, seen));
}

/** The participant id of the person. */
export function selfOf(record) {
  return record.participants.find((participant) => participant.self)?.id;
}

/** The name of a participant. */
export function nameOf(record, id) {
  return record.participants.find((participant) => participant.id === id)?.name ?? id;
}
