/** What is chosen on the map page. It lives in the address, so a view can be shared. */
import type { GroupBy, Order } from "@/components/gpuMap/layout";
import type { ColourBy } from "@/components/gpuMap/look";

export interface MapState {
  by: ColourBy;
  group: GroupBy;
  order: Order;
  find: string;
  project?: string | undefined;
  user?: string | undefined;
  workload?: string | undefined;
  state?: string | undefined;
  /** The device beside the map: node/number. */
  pin?: string | undefined;
  isTable: boolean;
}

export const COLOURS: readonly ColourBy[] = ["project", "utilization", "memory", "temperature", "user", "age"];
export const GROUPS: readonly GroupBy[] = ["pool", "rack", "none"];
export const ORDERS: readonly Order[] = ["holder", "name", "packed"];

function one<T extends string>(value: unknown, of: readonly T[], fallback: T): T {
  return of.includes(value as T) ? (value as T) : fallback;
}

const words = (value: unknown): string | undefined =>
  typeof value === "string" && value !== "" ? value : typeof value === "number" ? String(value) : undefined;

/** `devices` decides the order where none was chosen: regions form from 300 on. */
export function readState(raw: Record<string, unknown>, devices: number): MapState {
  return {
    by: one(raw.by, COLOURS, "project"),
    group: one(raw.group, GROUPS, "pool"),
    order: one(raw.order, ORDERS, devices > 300 ? "holder" : "name"),
    find: words(raw.find) ?? "",
    project: words(raw.project),
    user: words(raw.user),
    workload: words(raw.workload),
    state: words(raw.state),
    pin: words(raw.pin),
    isTable: raw.view === "table",
  };
}

/** Only what differs from the usual stands in the address. */
export function writeState(state: Partial<MapState>): Record<string, string | undefined> {
  const search: Record<string, string | undefined> = {};
  if ("by" in state) search.by = state.by === "project" ? undefined : state.by;
  if ("group" in state) search.group = state.group === "pool" ? undefined : state.group;
  if ("order" in state) search.order = state.order;
  if ("find" in state) search.find = state.find || undefined;
  for (const key of ["project", "user", "workload", "state", "pin"] as const)
    if (key in state) search[key] = state[key] || undefined;
  if ("isTable" in state) search.view = state.isTable ? "table" : undefined;
  return search;
}
