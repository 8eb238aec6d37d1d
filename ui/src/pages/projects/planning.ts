/** Plans of changes that are not made yet. */
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";

export const DEBOUNCE_MS = 300;

interface Change {
  settings?: string[];
  withoutNodes?: string[];
}

/** The plan with a change, as it is typed. An older question is aborted; a change of the cluster asks again. */
export function useWhatIf(cluster: string | undefined, pool: string | undefined, change: Change) {
  const mayPlan = useMay("cluster.snapshot");
  const written = JSON.stringify(change);
  const [settled] = useDebouncedValue(written, DEBOUNCE_MS);
  const asked = JSON.parse(settled) as Change;
  const isEmpty = (asked.settings ?? []).length === 0 && (asked.withoutNodes ?? []).length === 0;
  const query = useQuery({
    queryKey: ["planned", "what-if", cluster ?? "", pool ?? "", settled],
    enabled: mayPlan && cluster !== undefined && pool !== undefined && !isEmpty,
    placeholderData: keepPreviousData,
    retry: false,
    queryFn: ({ signal }) =>
      got(
        api.POST("/api/v1/clusters/{cluster_id}/what-if", {
          params: { path: { cluster_id: cluster! } },
          body: { nodePool: pool!, ...asked } as Schema<"WhatIfRequest">,
          signal,
        }),
      ),
  });
  const isCurrent = written === settled && !query.isPlaceholderData;
  return { answer: isEmpty ? undefined : query.data, error: isEmpty ? null : query.error, isCurrent, isEmpty, mayPlan };
}

/** What waits in a cluster now. */
export function useWaiting(cluster: string | undefined) {
  return useQuery({
    queryKey: ["waiting", "cluster", cluster ?? ""],
    enabled: cluster !== undefined,
    queryFn: async () => {
      const page = await got(
        api.GET("/api/v1/workloads/waiting", { params: { query: { limit: 200, filterBy: `clusterId==${cluster}` } } }),
      );
      return page.workloads;
    },
  });
}
