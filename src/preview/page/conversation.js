// What a conversation holds: messages of `session/read` folded into entries. No DOM, no I/O.
//
// A record only ever appends: an edit or a delete is a message about an earlier one. An entry is a base message with its changes; where the base
// isn't held (not loaded yet, or gone for good after a restart of the provider) the changes stand in its place.

import { compare, parse } from "./cursor.js";

/** One place of the conversation as a person sees it. */
class Entry {
  constructor(key) {
    /** The base message's id. */
    this.key = key;
    this.base = null;
    /** Edits and deletes, ascending. */
    this.changes = [];
    /** Rises with every change of what is shown. */
    this.revision = 0;
    /** Where it stands in `entries`. */
    this.index = -1;
    this.place = null;
  }

  /** The message whose text counts now. */
  get latest() {
    return this.changes.at(-1) ?? this.base;
  }

  get deleted() {
    return this.latest.about?.change === "delete";
  }

  get edited() {
    return this.latest.about?.change === "edit";
  }

  get text() {
    return this.latest.text;
  }

  /** The first message that is held: it says who and when. */
  get first() {
    return this.base ?? this.changes[0];
  }

  /** The texts before the one that counts, oldest first. */
  get earlier() {
    const all = this.base === null ? this.changes : [this.base, ...this.changes];
    return all.slice(0, -1).filter((message) => message.about?.change !== "delete");
  }

  /** What a revision has no field for is taken from the newest version that has it. */
  get meta() {
    const own = (message) => message?._meta?.["grok-bot"];
    return own(this.latest) ?? own(this.base);
  }

  get replyTo() {
    return (this.latest.replyTo ?? this.base?.replyTo)?.message ?? null;
  }
}

function byPlace(a, b) {
  return compare(a.place.cursor, b.place.cursor) || a.place.order - b.place.order;
}

export class Conversation {
  constructor(selfId) {
    this.selfId = selfId;
    this.clear();
  }

  /** Another life of the history: nothing of this one counts. */
  clear() {
    /** Oldest first. */
    this.entries = [];
    this.byKey = new Map();
    /** The entry's key of every message that is held. */
    this.owners = new Map();
    /** The entries that reply to an entry, by its key. */
    this.repliers = new Map();
    this.oldest = null;
    this.newest = null;
    /** Whether there are older messages, as the last answer for that side said. */
    this.moreBefore = true;
  }

  /**
   * Takes a page in, ascending, in whichever order pages come; a message that is held already changes nothing. Returns the entries that are new.
   */
  add(messages) {
    const fresh = [];
    let moved = false;
    let order = 0;
    let before = null;
    for (const message of messages) {
      // Messages that share a cursor are never split over pages: their order in the page is their order.
      order = message.cursor === before ? order + 1 : 0;
      before = message.cursor;
      if (this.owners.has(message.id)) continue;
      const place = { cursor: parse(message.cursor), order };
      this.widen(message.cursor, place);
      const key = message.about?.message ?? message.id;
      this.owners.set(message.id, key);
      let entry = this.byKey.get(key);
      if (entry === undefined) {
        entry = new Entry(key);
        entry.place = place;
        this.byKey.set(key, entry);
        fresh.push(entry);
      } else if (message.about === undefined) {
        // The base of changes that were loaded before it: the entry stands where the base does.
        entry.place = place;
        moved = true;
      }
      if (message.about === undefined) {
        entry.base = message;
      } else {
        message.place = place;
        entry.changes.push(message);
        entry.changes.sort(byPlace);
        // The first change that is held stands for a base that isn't.
        if (entry.base === null && byPlace(entry.changes[0], entry) < 0) {
          entry.place = entry.changes[0].place;
          moved = true;
        }
      }
      entry.revision += 1;
      if (entry.replyTo !== null) {
        const original = this.owners.get(entry.replyTo) ?? entry.replyTo;
        if (!this.repliers.has(original)) this.repliers.set(original, new Set());
        this.repliers.get(original).add(entry);
      }
    }
    this.insert(fresh, moved);
    this.touchRelated(messages);
    return fresh;
  }

  widen(text, place) {
    if (this.oldest === null || compare(place.cursor, parse(this.oldest)) < 0) this.oldest = text;
    if (this.newest === null || compare(place.cursor, parse(this.newest)) > 0) this.newest = text;
  }

  insert(fresh, moved) {
    fresh.sort(byPlace);
    if (moved || fresh.length === 0) {
      if (!moved) return;
      this.entries = [...this.entries, ...fresh].sort(byPlace);
    } else if (this.entries.length === 0 || byPlace(this.entries.at(-1), fresh[0]) < 0) {
      this.entries = this.entries.concat(fresh);
    } else if (byPlace(fresh.at(-1), this.entries[0]) < 0) {
      this.entries = fresh.concat(this.entries);
    } else {
      this.entries = [...this.entries, ...fresh].sort(byPlace);
    }
    this.entries.forEach((entry, index) => (entry.index = index));
  }

  /** What shows a message of these has to be drawn anew: a widget that was answered, a reply whose original came or changed. */
  touchRelated(messages) {
    for (const message of messages) {
      const entry = this.find(message.id);
      const original = entry.replyTo === null ? undefined : this.find(entry.replyTo);
      if (original) original.revision += 1;
      for (const replier of this.repliers.get(entry.key) ?? []) replier.revision += 1;
    }
  }

  /** The entry that holds a message, whichever version the id names, or undefined. */
  find(id) {
    return this.byKey.get(this.owners.get(id) ?? id);
  }

  isOwn(entry) {
    return entry.first.from === this.selfId;
  }

  /** What was chosen of a widget: the option whose label or value the person's own reply to it says, or null. */
  chosen(entry) {
    const options = entry.meta?.widget?.options;
    if (options === undefined) return null;
    for (const answer of this.repliers.get(entry.key) ?? []) {
      if (answer.deleted || !this.isOwn(answer)) continue;
      const text = answer.text.trim();
      const option = options.find(({ label }) => label.trim() === text) ?? options.find(({ value }) => value.trim() === text);
      if (option !== undefined) return option;
      // An answer addresses the Bot; it may name a value that isn't listed.
      if (answer.first.mentions?.length) return { label: text, value: text };
    }
    return null;
  }
}
