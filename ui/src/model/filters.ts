/** Filters of a list as they stand in the address, in the form of the API's `filterBy`. */

export const OPERATORS = ["==", "!=", "<=", ">=", "=@", "!@", "=^", "=$"] as const;
export type Operator = (typeof OPERATORS)[number];

export interface Filter {
  field: string;
  operator: Operator;
  value: string;
}

const FORM = /^([A-Za-z_.]+)(==|!=|<=|>=|=@|!@|=\^|=\$)([\s\S]*)$/;

export function parseFilter(written: string): Filter | null {
  const found = FORM.exec(written);
  return found === null ? null : { field: found[1]!, operator: found[2] as Operator, value: found[3]! };
}

export function writeFilter({ field, operator, value }: Filter): string {
  return `${field}${operator}${value}`;
}

/** The query parameter of the API. A comma separates filters there, so one in a value is escaped. */
export function filterBy(filters: readonly Filter[]): string | undefined {
  if (filters.length === 0) return undefined;
  return filters.map((each) => writeFilter({ ...each, value: each.value.replaceAll(",", "\\,") })).join(",");
}

export interface ListState {
  search: string;
  filters: Filter[];
  sort: string | null;
  descending: boolean;
  page: number;
  size: number;
  columns: string[] | null;
}

/** What stands in the address. Short names, because people copy it. */
export interface ListSearch {
  q?: string;
  f?: string[];
  sort?: string;
  page?: number;
  size?: number;
  cols?: string;
}

export const PAGE_SIZES = [25, 50, 100, 250] as const;

export function readListSearch(raw: Record<string, unknown>): ListSearch {
  const search: ListSearch = {};
  if (typeof raw.q === "string" && raw.q !== "") search.q = raw.q;
  else if (typeof raw.q === "number") search.q = String(raw.q);
  const filters = (Array.isArray(raw.f) ? raw.f : raw.f === undefined ? [] : [raw.f]).filter(
    (each): each is string => typeof each === "string" && parseFilter(each) !== null,
  );
  if (filters.length > 0) search.f = filters;
  if (typeof raw.sort === "string" && raw.sort !== "") search.sort = raw.sort;
  const page = Number(raw.page);
  if (Number.isInteger(page) && page > 1) search.page = page;
  const size = Number(raw.size);
  if ((PAGE_SIZES as readonly number[]).includes(size)) search.size = size;
  if (typeof raw.cols === "string" && raw.cols !== "") search.cols = raw.cols;
  return search;
}

export function stateOf(search: ListSearch): ListState {
  return {
    search: search.q ?? "",
    filters: (search.f ?? []).map(parseFilter).filter((each) => each !== null),
    sort: search.sort?.replace(/^-/, "") ?? null,
    descending: search.sort?.startsWith("-") ?? false,
    page: search.page ?? 1,
    size: search.size ?? 50,
    columns: search.cols?.split(",") ?? null,
  };
}

export function searchOf(state: ListState): ListSearch {
  const search: ListSearch = {};
  if (state.search !== "") search.q = state.search;
  if (state.filters.length > 0) search.f = state.filters.map(writeFilter);
  if (state.sort !== null) search.sort = (state.descending ? "-" : "") + state.sort;
  if (state.page > 1) search.page = state.page;
  if (state.size !== 50) search.size = state.size;
  if (state.columns !== null) search.cols = state.columns.join(",");
  return search;
}
