/** Reads a page of the list, its counts, and all rows for a file. */
import { api, got, type Schema } from "@/api/client";
import { listQuery } from "@/components/listState";
import type { Filter, ListState } from "@/model/filters";

export type Row = Schema<"WorkloadItem">;

export interface WorkloadList {
  rows: Row[];
  total: number;
  hasMore: boolean;
  counts: { running: number; pending: number; failed: number };
}

const CSV_PIECE = 500;
/** Rows of a file at most. */
const ROWS_MAX = 20_000;

/** The phase that the list is narrowed to. */
export function phaseOf(state: ListState): string | null {
  return state.filters.find((each) => each.field === "phase" && each.operator === "==")?.value ?? null;
}

export function hasPhaseFilter(state: ListState): boolean {
  return state.filters.some((each) => each.field === "phase" || each.field === "status");
}

function wantsDeleted(filters: readonly Filter[]): boolean {
  return filters.some((each) => each.field === "phase" && each.operator === "==" && each.value === "Deleted");
}

export async function readList(state: ListState): Promise<WorkloadList> {
  const { workloads, total, phases } = await read(state, (state.page - 1) * state.size, state.size, true);
  const count = total ?? workloads.length;
  const of = (phase: string) => phases?.[phase] ?? 0;
  return {
    rows: workloads,
    total: count,
    hasMore: state.page * state.size < count,
    counts: { running: of("Running"), pending: of("Pending"), failed: of("Failed") },
  };
}

/** The order when no other is chosen: what needs attention first; of one phase, the queue or the newest. */
function orderOf(state: ListState): { sortBy: string; sortOrder?: "asc" | "desc" } {
  if (!hasPhaseFilter(state)) return { sortBy: "attention" };
  return { sortBy: "createdAt", sortOrder: phaseOf(state) === "Pending" ? "asc" : "desc" };
}

async function read(state: ListState, offset: number, limit: number, counts: boolean): Promise<Schema<"WorkloadPage">> {
  const query = {
    ...orderOf(state),
    ...listQuery(state),
    offset,
    limit,
    measured: true,
    counts,
    ...(wantsDeleted(state.filters) ? { deleted: true } : {}),
  };
  return await got(api.GET("/api/v1/workloads", { params: { query } }));
}

/** All rows that fit, in the order of the list, for a file. */
export async function readAll(state: ListState): Promise<Row[]> {
  const rows: Row[] = [];
  const seen = new Set<string>(); // one that came to another place between two of the calls
  for (let offset = 0; offset < ROWS_MAX; offset += CSV_PIECE) {
    const { workloads, next } = await read(state, offset, CSV_PIECE, false);
    rows.push(...workloads.filter((each) => !seen.has(each.id) && seen.add(each.id)));
    if (next == null) break;
  }
  return rows;
}
