/** Values of nested objects by their path, as the API names fields: `compute.gpu`, `storage.pvc`. */

export type Fields = Record<string, unknown>;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Nothing was said: no value, an empty text, an empty list, an object without values. */
export function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  return isFields(value) && Object.values(value).every(isEmpty);
}

export function valueAt(of: unknown, path: string): unknown {
  let here: unknown = of;
  for (const key of path.split(".")) {
    if (Array.isArray(here)) here = here[Number(key)];
    else if (isFields(here)) here = here[key];
    else return undefined;
  }
  return here;
}

/** A copy with another value at a path. An empty value is removed, with the objects that it leaves empty. */
export function withValue(of: Fields, path: string, value: unknown): Fields {
  const dot = path.indexOf(".");
  const key = dot < 0 ? path : path.slice(0, dot);
  const before = of[key];
  const next = dot < 0 ? value : withValue(isFields(before) ? before : {}, path.slice(dot + 1), value);
  const { [key]: _gone, ...others } = of;
  const isGone = next === undefined || next === null || next === "" || (Array.isArray(next) && next.length === 0);
  if (isGone || (isFields(next) && Object.keys(next).length === 0)) return others;
  return { ...of, [key]: next };
}

/** Objects are merged key by key; every other value of `over` replaces that of `under`. */
export function merged(under: Fields, over: Fields): Fields {
  const both: Fields = { ...under };
  for (const [key, value] of Object.entries(over)) {
    const before = both[key];
    both[key] = isFields(before) && isFields(value) ? merged(before, value) : value;
  }
  return both;
}

/** A copy with another value at a path, which stays even if it is empty: somebody is typing there. */
export function typed(of: Fields, path: string, value: unknown): Fields {
  return put(of, path.split("."), value) as Fields;
}

function put(of: unknown, path: readonly string[], value: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  if (Array.isArray(of)) return of.map((each, at) => (at === Number(key) ? put(each, rest, value) : each));
  const before = isFields(of) ? of : {};
  return { ...before, [key]: put(before[key], rest, value) };
}

/** Without what is empty, all the way down, and without rows in which nothing was typed. */
export function pruned(of: Fields): Fields {
  const kept: Fields = {};
  for (const [key, value] of Object.entries(of)) {
    const next = isFields(value)
      ? pruned(value)
      : Array.isArray(value)
        ? value.filter((each) => !isEmpty(each)).map((each) => (isFields(each) ? pruned(each) : each))
        : value;
    if (next === undefined || next === null || next === "") continue;
    if (Array.isArray(next) ? next.length === 0 : isFields(next) && Object.keys(next).length === 0) continue;
    kept[key] = next;
  }
  return kept;
}
