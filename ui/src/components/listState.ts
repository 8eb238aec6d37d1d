import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { filterBy, type ListSearch, type ListState, readListSearch, searchOf, stateOf } from "@/model/filters";

/** Search, filters, order, page and columns of a list. They live in the address, so a view can be shared. */
export function useListState(): [ListState, (change: Partial<ListState>) => void] {
  const raw = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const state = useMemo(() => stateOf(readListSearch(raw)), [raw]);
  const set = useCallback(
    (change: Partial<ListState>) => {
      void navigate({
        to: ".",
        replace: !("filters" in change), // going back undoes a filter, not each letter of a search
        search: (before: Record<string, unknown>) => {
          const now = stateOf(readListSearch(before));
          const next = changed(now, change);
          const { q: _q, f: _f, sort: _s, page: _p, size: _z, cols: _c, ...others } = before as ListSearch;
          return { ...others, ...searchOf(next) };
        },
      } as never);
    },
    [navigate],
  );
  return [state, set];
}

/** Another order or filter begins at the first page. */
export function changed(state: ListState, change: Partial<ListState>): ListState {
  const staysOnPage = "page" in change || "columns" in change;
  return { ...state, ...(staysOnPage ? {} : { page: 1 }), ...change };
}

/** The parameters of a list of the API. */
export function listQuery(state: ListState): {
  filterBy?: string;
  search?: string;
  sortBy?: string;
  sortOrder?: "asc" | "desc";
  offset: number;
  limit: number;
} {
  const filter = filterBy(state.filters);
  return {
    ...(filter === undefined ? {} : { filterBy: filter }),
    ...(state.search === "" ? {} : { search: state.search }),
    ...(state.sort === null ? {} : { sortBy: state.sort, sortOrder: state.descending ? "desc" : "asc" }),
    offset: (state.page - 1) * state.size,
    limit: state.size,
  };
}
