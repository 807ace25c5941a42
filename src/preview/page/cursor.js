// Cursors are `<generation>:<number>`, two unbounded integers: BigInt, never floats.

/** Reads a cursor. */
export function parse(text) {
  const [generation, number] = text.split(":");
  return { generation: BigInt(generation), number: BigInt(number) };
}

/** Negative, zero or positive, as a comparator of Array.sort. */
export function compare(a, b) {
  if (a.generation !== b.generation) return a.generation < b.generation ? -1 : 1;
  if (a.number !== b.number) return a.number < b.number ? -1 : 1;
  return 0;
}

/** Whether `a` lies after `b`; both are texts, and null lies before everything. */
export function isAfter(a, b) {
  if (a === null) return false;
  return b === null || compare(parse(a), parse(b)) > 0;
}

/** Whether two cursors are of one life of a history. */
export function sameLife(a, b) {
  return parse(a).generation === parse(b).generation;
}
