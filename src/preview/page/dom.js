// Elements without markup: texts only ever become text nodes.

/**
 * Makes an element. Properties that begin with `on` are listeners, `class` and `aria-*` and the like are attributes; true is an empty attribute, and
 * false, null and undefined are left out. Children are nodes or texts; null and false are left out.
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A link that leaves the page: another window that can't reach back. */
export function outside(url, properties, ...children) {
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer", ...properties }, ...children);
}

/** Sets the text of an element only where it differs, so that a live region isn't told the same twice. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** A name of somebody else, for one line: without marks that turn the direction of what stands around it. */
export function plainName(text) {
  return text.replace(/[\u0000-\u001f\u007f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");
}
