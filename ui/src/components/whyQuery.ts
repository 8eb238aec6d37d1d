import { queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { api, got } from "@/api/client";
import { changeStream } from "@/api/stream";

/** The cluster plans for each answer, so it is asked at most this often. */
const AGAIN_MS = 5000;
const CHANGES = new Set(["shares", "decision", "node", "node-pool", "project"]);

export const waitQuery = (id: string) =>
  queryOptions({
    queryKey: ["wait", id],
    queryFn: () => got(api.GET("/api/v1/workloads/{workload_id}/wait", { params: { path: { workload_id: id } } })),
  });

/** Why a workload waits; read again when something changed that may change the answer. */
export function useWait(id: string, isWaiting: boolean) {
  const queries = useQueryClient();
  const query = useQuery({ ...waitQuery(id), enabled: isWaiting });
  useEffect(() => {
    if (!isWaiting) return;
    let timer: ReturnType<typeof setTimeout> | null = null;
    const stop = changeStream().listen((change) => {
      const concerns = CHANGES.has(change.noun) || (change.noun === "workload" && change.id === id);
      if (!concerns || timer !== null) return;
      timer = setTimeout(() => {
        timer = null;
        void queries.invalidateQueries({ queryKey: ["wait", id] }, { cancelRefetch: false });
      }, AGAIN_MS);
    });
    return () => {
      stop();
      if (timer !== null) clearTimeout(timer);
    };
  }, [id, isWaiting, queries]);
  return query;
}
