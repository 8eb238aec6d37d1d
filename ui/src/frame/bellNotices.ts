/** What the bell asks the server. The stream says when to ask again. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, got, type Schema } from "@/api/client";
import { sharesQuery, useMay, useMe } from "@/api/queries";
import { type Notice, ofDecisions, ofDeliveries, ofFailed, ofIdle, ofNodes, ofShares } from "./bellEvents";
import { useOneCluster } from "./cluster";

const LATEST = 60;
const FAILED = 20;

/** Commas separate conditions of a filter. */
const escaped = (value: string): string => value.replaceAll(",", "\\,");

export function useNotices(idleFrom: number): { notices: Notice[]; error: unknown } {
  const mine = useMine();
  const pool = usePool(idleFrom);
  const notices = useMemo(() => [...pool, ...mine.notices], [pool, mine.notices]);
  return { notices, error: mine.error };
}

/** What happened to the reader's own workloads. */
function useMine(): { notices: Notice[]; error: unknown } {
  const name = useMe()?.username;
  const of = escaped(name ?? "");
  const decisions = useQuery({
    queryKey: ["bell", "decisions", name],
    queryFn: () =>
      got(api.GET("/api/v1/decisions", { params: { query: { filterBy: `submittedBy==${of}`, limit: LATEST } } })),
    enabled: name !== undefined,
  });
  const failed = useQuery({
    queryKey: ["bell", "failed", name],
    queryFn: () => {
      const query = {
        filterBy: `phase==Failed,submittedBy==${of}`,
        sortBy: "completedAt",
        sortOrder: "desc",
        limit: FAILED,
      };
      return got(api.GET("/api/v1/workloads", { params: { query } }));
    },
    enabled: name !== undefined,
  });
  const deliveries = useQuery({
    queryKey: ["bell", "deliveries"],
    queryFn: () => got(api.GET("/api/v1/notifications", { params: { query: { limit: LATEST } } })),
  });
  const notices = useMemo(
    () => [
      ...ofFailed((failed.data?.workloads ?? []) as Schema<"WorkloadItem">[]),
      ...ofDeliveries(deliveries.data?.deliveries ?? []),
      ...ofDecisions((decisions.data?.decisions ?? []) as Schema<"Decision">[]),
    ],
    [failed.data, deliveries.data, decisions.data],
  );
  return { notices, error: notices.length === 0 ? (decisions.error ?? failed.error) : null };
}

/** What is wrong with the pool, for those who can do something about it. */
function usePool(idleFrom: number): Notice[] {
  const mayNodes = useMay("node.mark");
  const mayQuotas = useMay("project.update");
  const cluster = useOneCluster();
  const nodes = useQuery({
    queryKey: ["bell", "nodes"],
    queryFn: () => got(api.GET("/api/v1/nodes", { params: { query: { filterBy: "status!=Ready", limit: 50 } } })),
    enabled: mayNodes,
  }).data;
  const figures = useQuery({
    queryKey: ["bell", "figures"],
    queryFn: () => got(api.GET("/api/v1/overview/figures")),
    enabled: mayNodes,
  }).data;
  const shares = useQuery({ ...sharesQuery(cluster?.uuid), enabled: mayQuotas && cluster !== undefined }).data;
  return useMemo(
    () => [
      ...ofNodes((nodes?.nodes ?? []) as Schema<"NodeAnswer">[], Date.now()),
      ...(mayQuotas && shares !== undefined ? ofShares(shares) : []),
      ...(mayNodes ? ofIdle(figures?.idleAllocatedGpus, idleFrom) : []),
    ],
    [nodes, shares, figures, mayNodes, mayQuotas, idleFrom],
  );
}
