/** Search, order and pages of a list that is read whole: there are few assets. */
import type { ListState } from "@/model/filters";
import type { AssetRow } from "./rows";
import { scopeWords } from "./rows";

const KEYS: Record<string, (row: AssetRow) => string> = {
  name: (row) => row.name,
  type: (row) => row.type,
  scope: (row) => scopeWords(row.scope),
  createdBy: (row) => row.createdBy,
  updatedAt: (row) => row.updatedAt ?? "",
};

export function shownRows(
  rows: AssetRow[] | undefined,
  state: ListState,
): { page: AssetRow[]; total: number } | undefined {
  if (rows === undefined) return undefined;
  const wanted = state.search.toLowerCase();
  const found = rows.filter((row) =>
    [row.name, row.what, row.description, row.type, scopeWords(row.scope)].some((each) =>
      each.toLowerCase().includes(wanted),
    ),
  );
  const key = KEYS[state.sort ?? "name"] ?? KEYS.name!;
  const sorted = found.sort((a, b) => key(a).localeCompare(key(b), "en", { numeric: true }));
  if (state.sort !== null && state.descending) sorted.reverse();
  const start = (state.page - 1) * state.size;
  return { page: sorted.slice(start, start + state.size), total: found.length };
}
