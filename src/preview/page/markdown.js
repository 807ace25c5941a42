// Markdown of messages, safely: parsed by marked without raw HTML, cleaned by DOMPurify, shown without loading anything from anywhere.

import { Marked } from "./vendor/marked.js";
import DOMPurify from "./vendor/dompurify.js";
import { h } from "./dom.js";
import { t } from "./texts.js";
import { MARK, exact, size, withLocalTimes } from "./when.js";

/** A text longer than this is shown as plain text, its beginning first: parsing and laying out must not hold up the page. In UTF-16 units. */
const LONG = 16_000;
/** How much of such a text is shown until all is asked for. */
const BEGINNING = 2_000;

const TAGS = "p br strong em del code pre blockquote ul ol li h1 h2 h3 h4 h5 h6 hr table thead tbody tr th td a time input".split(" ");

function escape(text) {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

/** Whether a link of a message may be followed: the web and mail, nothing that runs. */
function followable(href) {
  try {
    return ["http:", "https:", "mailto:"].includes(new URL(href).protocol);
  } catch {
    return false; // Relative: it would lead into this page.
  }
}

const localTime = {
  name: "localTime",
  level: "inline",
  start: (text) => text.match(MARK)?.index,
  tokenizer(text) {
    const found = MARK.exec(text);
    if (found === null || found.index !== 0 || Number.isNaN(Date.parse(found[1]))) return undefined;
    return { type: "localTime", raw: found[0], iso: found[1] };
  },
  renderer: ({ iso }) => `<time datetime="${escape(iso)}">${escape(exact(new Date(iso)))}</time>`,
};

const marked = new Marked({
  gfm: true,
  breaks: true,
  extensions: [localTime],
  renderer: {
    // Raw HTML is text like any other.
    html: ({ text }) => escape(text),
    link({ href, tokens }) {
      const inner = this.parser.parseInline(tokens);
      return followable(href) ? `<a href="${escape(href)}">${inner}</a>` : inner;
    },
    // A picture would be fetched from wherever the message says: it is a link instead.
    image({ href, text }) {
      const label = `[${t("picture")}] ${text || href}`;
      return followable(href) ? `<a href="${escape(href)}">${escape(label)}</a>` : escape(label);
    },
  },
});

/** The text as nodes. */
export function render(text, { expanded = false, expand } = {}) {
  if (text.length > LONG) return renderLong(text, expanded, expand);
  let dirty;
  try {
    dirty = marked.parse(text);
  } catch {
    return plain(text); // Nested deeper than the parser goes.
  }
  const clean = DOMPurify.sanitize(dirty, {
    ALLOWED_TAGS: TAGS,
    ALLOWED_ATTR: ["href", "datetime", "start", "type", "checked", "disabled", "align"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const link of clean.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  for (const box of clean.querySelectorAll("input")) {
    // A task list's box; nothing else that asks for input.
    if (box.type === "checkbox") box.replaceWith(box.checked ? "☑ " : "☐ ");
    else box.remove();
  }
  // Wide things scroll by themselves, not the page.
  for (const wide of clean.querySelectorAll("table, pre")) {
    const frame = h("div", { class: "wide", tabindex: "0" });
    wide.replaceWith(frame);
    frame.append(wide);
  }
  for (const block of clean.querySelectorAll("p, li, h1, h2, h3, h4, h5, h6, td, th, blockquote")) block.dir = "auto";
  return clean;
}

function plain(text) {
  return h("p", { class: "plain", dir: "auto" }, text);
}

function renderLong(text, expanded, expand) {
  if (expanded) return plain(text);
  const fragment = document.createDocumentFragment();
  // Not in the middle of a pair of surrogates.
  const end = /[\ud800-\udbff]/.test(text[BEGINNING - 1]) ? BEGINNING - 1 : BEGINNING;
  const bytes = new TextEncoder().encode(text).length;
  fragment.append(
    plain(`${text.slice(0, end)}…`),
    h("button", { type: "button", class: "quiet", "data-focus": "expand", onclick: expand }, t("showAll", size(bytes))),
  );
  return fragment;
}

/** The beginning of a text on one line, without Markdown's signs: for quotes, previews and the screen reader. */
export function summary(text, length = 80) {
  const head = withLocalTimes(text.slice(0, 2_000));
  const line = head
    .replace(/```\w*|[`*_~#>|]+/g, " ")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "")
    .replace(/\s+/g, " ")
    .trim();
  const signs = [...line];
  return signs.length > length ? `${signs.slice(0, length).join("")}…` : line;
}
