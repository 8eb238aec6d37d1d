/** Search, filters, order and pages of a list that the server gives whole. */
import type { Filter, ListState } from "./filters";

type Value = string | number | boolean | null | undefined;
export type Fields<Row> = Record<string, (row: Row) => Value | readonly string[]>;

function matches(value: Value | readonly string[], { operator, value: wanted }: Filter): boolean {
  const all = (Array.isArray(value) ? value : [value ?? ""]).map((each) => String(each).toLowerCase());
  const given = wanted.toLowerCase();
  const some = (test: (each: string) => boolean) => all.some(test);
  switch (operator) {
    case "==":
      return some((each) => each === given);
    case "!=":
      return !some((each) => each === given);
    case "=@":
      return some((each) => each.includes(given));
    case "!@":
      return !some((each) => each.includes(given));
    case "=^":
      return some((each) => each.startsWith(given));
    case "=$":
      return some((each) => each.endsWith(given));
    case "<=":
      return some((each) => compared(each, given) <= 0);
    case ">=":
      return some((each) => compared(each, given) >= 0);
  }
}

function compared(a: string, b: string): number {
  return a.localeCompare(b, "en", { numeric: true });
}

/** The rows of the page that is shown, and how many fit. What is not known comes last in either order. */
export function localRows<Row>(
  rows: readonly Row[],
  state: ListState,
  fields: Fields<Row>,
): { rows: Row[]; total: number } {
  const words = state.search.toLowerCase();
  const text = (row: Row) =>
    Object.values(fields)
      .flatMap((each) => each(row) ?? "")
      .join("\n")
      .toLowerCase();
  const found = rows.filter(
    (row) =>
      (words === "" || text(row).includes(words)) &&
      state.filters.every((each) => {
        const field = fields[each.field];
        return field === undefined || matches(field(row), each);
      }),
  );
  const by = state.sort === null ? undefined : fields[state.sort];
  if (by !== undefined) {
    const key = (row: Row) => String(by(row) ?? "");
    found.sort((a, b) => {
      const [left, right] = [key(a), key(b)];
      if (left === "" || right === "") return Number(left === "") - Number(right === "");
      return compared(left, right) * (state.descending ? -1 : 1);
    });
  }
  const from = (state.page - 1) * state.size;
  return { rows: found.slice(from, from + state.size), total: found.length };
}
