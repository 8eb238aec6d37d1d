/** Devices of an answer, ready to be drawn: with in and over quota, and what else is known. */
import { type UseQueryResult, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { api, got, type Schema } from "@/api/client";
import { PAGE_MAX } from "@/api/pages";
import { clustersQuery, devicesQuery, sharesQuery } from "@/api/queries";
import { changeStream } from "@/api/stream";
import { useChosenCluster } from "@/frame/cluster";
import { text } from "@/text/map";
import { type Extra, type MapNode, mapNodes } from "./devices";
import { overQuotaWorkloads, startsOf } from "./overQuota";

/** When workloads started, from the latest decisions: the order in which they went beyond quotas. */
export function useStarts(): Map<string, number> | undefined {
  return useQuery({
    queryKey: ["decisions", "starts"],
    queryFn: () => got(api.GET("/api/v1/decisions", { params: { query: { limit: PAGE_MAX } } })),
    select: selectStarts,
  }).data;
}

const selectStarts = (page: Schema<"DecisionPage">) => startsOf(page.decisions);

export type Shares = Pick<Schema<"SharesPage">, "shares">;

/** What projects hold, of the chosen cluster or of all of them. Undefined until it is known. */
export function useMapShares(): Shares | undefined {
  const clusters = useQuery(clustersQuery).data;
  const chosen = useChosenCluster();
  const asked = chosen === null ? (clusters ?? []) : [chosen];
  return useQueries({ queries: asked.map((each) => sharesQuery(each.uuid)), combine: together });
}

/** A cluster that does not answer leaves its workloads without a mark; the others keep theirs. */
function together(answers: UseQueryResult<Shares>[]): Shares | undefined {
  if (answers.length === 0 || answers.some((each) => each.data === undefined && !each.isError)) return undefined;
  return { shares: answers.flatMap((each) => each.data?.shares ?? []) };
}

export function useMapNodes(page: Schema<"DevicePage">, shares: Shares | undefined, extra?: Extra): MapNode[] {
  const starts = useStarts();
  return useMemo(
    () => mapNodes(page, overQuotaWorkloads(page, shares, starts), text.hidden, extra),
    [page, shares, starts, extra],
  );
}

/** All devices, read again when samples arrive too: their utilization is in the answer. */
export function useDevices() {
  const queries = useQueryClient();
  useEffect(
    () =>
      changeStream().listen((change) => {
        if (change.noun === "samples" && !document.hidden)
          void queries.invalidateQueries({ queryKey: devicesQuery.queryKey }, { cancelRefetch: false });
      }),
    [queries],
  );
  return useQuery(devicesQuery);
}
