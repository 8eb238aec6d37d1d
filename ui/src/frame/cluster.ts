/** The cluster that the reader looks at. Null: all of them. */
import { useQuery } from "@tanstack/react-query";
import { useSyncExternalStore } from "react";
import type { Schema } from "@/api/client";
import { clustersQuery } from "@/api/queries";

const KEY = "fairpool.cluster";
const listeners = new Set<() => void>();

export function chooseCluster(id: string | null): void {
  if (id === null) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, id);
  for (const each of listeners) each();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The chosen cluster, if it still exists; null: all. */
export function useChosenCluster(): Schema<"ClusterAnswer"> | null {
  const clusters = useQuery(clustersQuery).data;
  const chosen = useSyncExternalStore(subscribe, () => localStorage.getItem(KEY));
  return clusters?.find((each) => each.uuid === chosen) ?? null;
}

/** For questions that one cluster answers: the chosen one, else the first. Undefined while clusters are loading. */
export function useOneCluster(): Schema<"ClusterAnswer"> | undefined {
  const clusters = useQuery(clustersQuery).data;
  const chosen = useChosenCluster();
  return chosen ?? clusters?.[0];
}
