/** Amounts of the accounts, as they are written and sorted. */
import type { Schema } from "@/api/client";
import { UNKNOWN } from "@/model/format";

export type Column =
  | "gpuHoursRequested"
  | "gpuHoursAllocated"
  | "gpuHoursUsed"
  | "gpuHoursIdle"
  | "gpuHoursOverQuota"
  | "gpuHoursLost"
  | "cpuCoreHours"
  | "memoryGibHours"
  | "cost";

type Amounts = Schema<"UsageAmounts">;

/** Two decimals, and as many as show that it is not nothing. */
export function amount(amounts: Amounts, column: Column): string {
  const value = amounts[column];
  if (value == null) return UNKNOWN;
  const number = Number(value);
  if (number !== 0 && Math.abs(number) < 0.005) return "<0.01";
  return number.toLocaleString("en-GB", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

export interface Order {
  by: string;
  descending: boolean;
}

/** Rows in an order; what is not known comes last. */
export function sorted(rows: readonly Schema<"UsageRow">[], order: Order | null): Schema<"UsageRow">[] {
  if (order === null) return [...rows];
  const direction = order.descending ? -1 : 1;
  const key = (row: Schema<"UsageRow">) => row[order.by as keyof Schema<"UsageRow">] ?? null;
  return [...rows].sort((one, other) => {
    const [a, b] = [key(one), key(other)];
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    const [x, y] = [Number(a), Number(b)];
    const isNumber = Number.isFinite(x) && Number.isFinite(y) && order.by !== "workload" && order.by !== "user";
    return direction * (isNumber ? x - y : String(a).localeCompare(String(b), "en", { numeric: true }));
  });
}
