// Times as a person reads them, in local time.

import { language, t } from "./texts.js";

const formats = new Map();

function format(name, options) {
  const key = `${language()} ${name}`;
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(language(), options));
  return formats.get(key);
}

/** 14:05 */
export function clock(date) {
  return format("clock", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }).format(date);
}

/** Date, time and second, for a tooltip and for `<t:…>`. */
export function exact(date) {
  return format("exact", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" }).format(date);
}

/** A value that is the same for all moments of one local day. */
export function dayOf(date) {
  return date.getFullYear() * 10000 + date.getMonth() * 100 + date.getDate();
}

/** What a day line says. */
export function day(date, now = new Date()) {
  const yesterday = new Date(now);
  yesterday.setDate(now.getDate() - 1);
  if (dayOf(date) === dayOf(now)) return t("today");
  if (dayOf(date) === dayOf(yesterday)) return t("yesterday");
  const withYear = date.getFullYear() === now.getFullYear() ? {} : { year: "numeric" };
  return format(`day ${"year" in withYear}`, { month: "long", day: "numeric", weekday: "long", ...withYear }).format(date);
}

/** Minutes and seconds of a wait, at least 0:00. */
export function left(milliseconds) {
  const seconds = Math.max(0, Math.ceil(milliseconds / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** How `<t:ISO>` is found in a text of the provider. */
export const MARK = /<t:(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d))>/;

/** A text in which every `<t:ISO>` is written in local time; what isn't a time stays as it is. */
export function withLocalTimes(text) {
  return text.replace(new RegExp(MARK, "g"), (whole, iso) => {
    const date = new Date(iso);
    return Number.isNaN(date.getTime()) ? whole : exact(date);
  });
}

/** Bytes as a person reads them. */
export function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}
