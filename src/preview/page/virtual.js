// A list of rows of unknown height of which only the visible part is in the document, newest at the bottom.
//
// The browser's own scroll anchoring is off: rows come, change and go above what is being read, and the row that is being read must not move. So before
// each change the first visible row is remembered with its place on the screen, and put back there after it, by measuring the document and not by sums of
// guessed heights.

import { h } from "./dom.js";

/** How far beyond the visible part rows are drawn, in pixels. */
const BEYOND = 800;
/** How near to the bottom counts as at the bottom. */
const BOTTOM = 40;
/** A row that was never measured. */
const GUESS = 90;
/** Guesses settle within a round or two; the limit keeps a surprise from becoming a loop. */
const ROUNDS = 6;

export class VirtualList {
  /**
   * `signature(item, before)` says what a row shows, so that it is drawn anew only when that changes; `draw(item, before, row)` fills a row. An item keeps
   * its measured height in `height`. `onView({atBottom, nearTop})` is told after every change of what is seen.
   */
  constructor(scroller, { signature, draw, onView }) {
    Object.assign(this, { scroller, signature, draw, onView });
    this.items = [];
    /** Rows in the document by key. */
    this.rows = new Map();
    this.first = 0;
    this.last = 0;
    /** The newest row stays in sight while new ones come. */
    this.pinned = true;
    this.above = h("div", { class: "spacer", "aria-hidden": "true" });
    this.below = h("div", { class: "spacer", "aria-hidden": "true" });
    scroller.append(this.above, this.below);
    scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.width = 0;
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(scroller);
  }

  /** Other items, or items that changed. */
  set(items) {
    const anchors = this.anchors();
    this.items = items;
    this.update(anchors.find(({ item }) => this.indexOf(item) >= 0) ?? null);
  }

  /** Another list altogether, seen from its end. */
  restart(items) {
    this.pinned = true;
    for (const { row } of this.rows.values()) this.drop(row);
    this.rows.clear();
    this.items = items;
    this.update(null);
  }

  toBottom() {
    this.pinned = true;
    this.update(null);
  }

  /** Brings an item into sight; gives its row. */
  show(item) {
    if (this.indexOf(item) < 0) return null;
    this.pinned = false;
    const top = this.scroller.clientHeight / 3;
    this.update({ item, offset: top });
    return this.rows.get(item.key).row;
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    this.pinned = scrollHeight - scrollTop - clientHeight < BOTTOM;
    this.update(this.anchors()[0] ?? null);
  }

  resized() {
    const width = this.scroller.clientWidth;
    if (width !== this.width) {
      this.width = width;
      for (const item of this.items) item.height = undefined;
    }
    this.update(this.anchors()[0] ?? null);
  }

  /** The rows that are seen, and where on the screen what each says begins. None where the bottom is what stays. */
  anchors() {
    if (this.pinned) return [];
    const { top, bottom } = this.scroller.getBoundingClientRect();
    const found = [];
    for (const { row, item } of this.rows.values()) {
      // The line above the oldest message stays at the top whatever comes below it.
      if (item.floating) continue;
      const box = mark(row).getBoundingClientRect();
      if (box.bottom > top && box.top < bottom) found.push({ item, offset: box.top - top });
    }
    return found.sort((a, b) => a.offset - b.offset);
  }

  /** Where an item stands; it is looked for where it says it stood first. */
  indexOf(item) {
    for (const guess of [item.index, item.index + 1]) if (this.items[guess] === item) return guess;
    return this.items.indexOf(item);
  }

  update(anchor) {
    if (this.scroller.clientHeight === 0) return; // Not shown.
    for (let round = 0; round < ROUNDS; round += 1) {
      const [first, last] = this.range(anchor);
      const same = first === this.first && last === this.last;
      this.render(first, last);
      this.measure();
      this.restore(anchor);
      if (same && round > 0) break;
    }
    this.onView({ atBottom: this.pinned, nearTop: this.first < 10 });
  }

  /** Which items are to be drawn. */
  range(anchor) {
    const { items } = this;
    const view = this.scroller.clientHeight;
    let first;
    let room;
    if (this.pinned) {
      first = items.length;
      room = view + BEYOND;
    } else if (anchor !== null) {
      first = this.indexOf(anchor.item);
      room = anchor.offset + BEYOND;
    } else {
      // Far from what is drawn: by the sum of heights.
      const top = this.scroller.scrollTop;
      let sum = 0;
      first = 0;
      while (first < items.length - 1 && sum + heightOf(items[first]) < top) sum += heightOf(items[first++]);
      room = BEYOND + top - sum;
    }
    let last = first;
    let below = this.pinned ? 0 : view + BEYOND - (anchor?.offset ?? 0);
    while (first > 0 && room > 0) room -= heightOf(items[--first]);
    while (last < items.length && below > 0) below -= heightOf(items[last++]);
    return [first, last];
  }

  render(first, last) {
    // What goes, goes first: a row that stays is then never moved, since moving an element takes its focus away.
    const kept = new Set();
    for (let index = first; index < last; index += 1) kept.add(this.items[index].key);
    for (const [key, { row }] of this.rows) {
      if (kept.has(key)) continue;
      // The keyboard must not be lost with the row that had it.
      if (row.contains(document.activeElement)) this.scroller.focus({ preventScroll: true });
      this.drop(row);
      this.rows.delete(key);
    }
    let next = this.above.nextSibling;
    for (let index = first; index < last; index += 1) {
      const item = this.items[index];
      const before = this.items[index - 1];
      const signature = this.signature(item, before);
      let drawn = this.rows.get(item.key);
      if (drawn === undefined) {
        drawn = { row: h("div", { class: "row" }), item, signature: null };
        this.rows.set(item.key, drawn);
        this.observer.observe(drawn.row);
      }
      drawn.item = item;
      if (drawn.signature !== signature) {
        drawn.signature = signature;
        this.redraw(drawn.row, item, before);
      }
      if (drawn.row === next) next = next.nextSibling;
      else this.scroller.insertBefore(drawn.row, next);
    }
    this.first = first;
    this.last = last;
  }

  /** Fills a row; what had the focus in it has it again. */
  redraw(row, item, before) {
    const focus = row.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
    row.replaceChildren(...this.draw(item, before));
    if (focus === undefined) return;
    const again = [...row.querySelectorAll("[data-focus]")].find((element) => element.dataset.focus === focus);
    (again ?? this.scroller).focus({ preventScroll: true });
  }

  drop(row) {
    this.observer.unobserve(row);
    row.remove();
  }

  measure() {
    for (let index = this.first; index < this.last; index += 1) {
      const item = this.items[index];
      item.height = this.rows.get(item.key).row.getBoundingClientRect().height;
    }
    let above = 0;
    let below = 0;
    for (let index = 0; index < this.first; index += 1) above += heightOf(this.items[index]);
    for (let index = this.last; index < this.items.length; index += 1) below += heightOf(this.items[index]);
    this.above.style.height = `${above}px`;
    this.below.style.height = `${below}px`;
  }

  restore(anchor) {
    const { scroller } = this;
    if (this.pinned) {
      scroller.scrollTop = scroller.scrollHeight;
    } else if (anchor !== null) {
      const drawn = this.rows.get(anchor.item.key);
      if (drawn === undefined) return;
      const now = mark(drawn.row).getBoundingClientRect().top - scroller.getBoundingClientRect().top;
      if (Math.abs(now - anchor.offset) >= 0.5) scroller.scrollTop += now - anchor.offset;
    }
  }
}

/** What a row says, below a day line that may come and go. */
function mark(row) {
  return row.lastElementChild ?? row;
}

function heightOf(item) {
  return item.height ?? GUESS;
}
