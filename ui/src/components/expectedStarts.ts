/** When waiting work is expected to start, for the first rows of a list: the cluster plans for each of them. */
import { keepPreviousData, queryOptions, useQueries } from "@tanstack/react-query";
import { createContext } from "react";
import { api, got, type Schema } from "@/api/client";
import { Turns } from "@/api/turns";
import { isWaiting } from "@/model/status";

export type Expected = ReadonlyMap<string, Schema<"WorkloadWait">>;

export const EXPECTED_ROWS = 10;

/** The answers for the rows of a list, for the cells that show them. */
export const ExpectedStarts = createContext<Expected>(new Map());

const turns = new Turns();
/** An estimate is asked for again after this long, or when the cause of the wait changes. */
const ASKED_AGAIN_MS = 30_000;

const expectedQuery = (id: string, cause: string) =>
  queryOptions({
    queryKey: ["expected", id, cause, Math.floor(Date.now() / ASKED_AGAIN_MS)],
    queryFn: ({ signal }) => {
      const params = { path: { workload_id: id }, query: { changes: false } };
      return turns.ask(() => got(api.GET("/api/v1/workloads/{workload_id}/wait", { params, signal })), signal);
    },
    placeholderData: keepPreviousData,
    gcTime: 2 * ASKED_AGAIN_MS,
    retry: false,
  });

interface Row {
  id: string;
  phase?: string;
  /** What the scheduler says. Without it, something else than GPUs is waited for. */
  wait?: Schema<"WaitCause"> | null | undefined;
}

/** Asked one after the other: a row without an answer says nothing about its start. */
export function useExpectedStarts(rows: readonly Row[], most = EXPECTED_ROWS): Expected {
  const waiting = rows.filter(
    (each) => each.wait != null && (each.phase === undefined || isWaiting({ phase: each.phase })),
  );
  const asked = waiting.slice(0, most);
  return useQueries({ queries: asked.map((each) => expectedQuery(each.id, each.wait!.cause)), combine: byWorkload });
}

/** The same map as long as no answer is another, so that rows are not drawn again. */
function byWorkload(answers: { data: Schema<"WorkloadWait"> | null | undefined }[]): Expected {
  return new Map(answers.flatMap(({ data }) => (data == null ? [] : [[data.workloadId, data] as const])));
}
