import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import type { Schema } from "@/api/client";
import { clustersQuery } from "@/api/queries";
import { type Shares, useMapShares, useStarts } from "@/components/gpuMap/mapModel";
import { overQuotaWorkloads } from "@/components/gpuMap/overQuota";
import { useChosenCluster, useOneCluster } from "@/frame/cluster";
import { FeedCard } from "./FeedCard";
import { BreakdownCard, ErrorsCard, IdleCard, LongestCard, SplitCard } from "./InsightCards";
import { idleHolders, typesOf } from "./idle";
import { MapCard } from "./MapCard";
import { NodesCard } from "./NodesCard";
import classes from "./OverviewPage.module.css";
import { PendingCard } from "./PendingCard";
import type { Scope } from "./questions";
import { RunningCard } from "./RunningCard";
import { ShareCard } from "./ShareCard";
import { failedIn, type Seen } from "./seen";
import { sharesByProject } from "./shares";
import { Tiles } from "./Tiles";

/** GPUs: figures, map, fair share, waiting and running work, what just happened. */
export function GpuView({ seen, scope }: { seen: Seen; scope: Scope }) {
  const { figures, shares, devices, waiting, nodes, expected } = seen;
  const one = useOneCluster();
  const clusters = useQuery(clustersQuery).data ?? [];
  const mapShares = useMapShares();
  const over = useOverQuota(devices.data, mapShares);
  const quotas = useQuotas(seen, scope);
  const holders = useMemo(() => (devices.data === undefined ? undefined : idleHolders(devices.data)), [devices.data]);
  const longestWaiting = waiting.data?.rows[0];
  return (
    <>
      {!seen.isFiguresRefused && (
        <Tiles
          figures={figures.data}
          scope={scope}
          cluster={one?.uuid}
          quotas={quotas}
          waitingSince={longestWaiting?.waitingSince ?? longestWaiting?.createdAt}
          idleNames={holders?.map((each) => each.name)}
          isPartial={!seen.isOperator}
          gpuTypes={devices.data === undefined ? [] : typesOf(devices.data)}
        />
      )}
      <div className={classes.grid}>
        <MapCard query={devices} shares={mapShares} className={classes.map} />
        <ShareCard
          query={shares}
          scope={scope}
          clusterName={clusters.length > 1 ? one?.name : undefined}
          className={classes.shares}
        />
        <div className={classes.main}>
          <PendingCard query={waiting} expected={expected} className={classes.pending} />
          <RunningCard scope={scope} count={figures.data?.running ?? 0} overQuota={over} className={classes.running} />
          <div className={classes.insights}>
            <SplitCard cluster={one?.uuid} pool={scope.pool} />
            <BreakdownCard scope={scope} pools={shares.data?.pools} />
            <ErrorsCard scope={scope} count={failedIn(figures.data)} />
            <LongestCard scope={scope} />
          </div>
        </div>
        <div className={classes.side}>
          <FeedCard scope={scope} />
          <NodesCard query={nodes} count={figures.data?.nodes ?? 0} />
          {holders !== undefined && <IdleCard holders={holders} />}
        </div>
      </div>
    </>
  );
}

/** Workloads beyond their project's quota, by the rule of the map. */
function useOverQuota(devices: Schema<"DevicePage"> | undefined, shares: Shares | undefined): ReadonlySet<string> {
  const starts = useStarts();
  return useMemo(
    () => (devices === undefined ? new Set<string>() : overQuotaWorkloads(devices, shares, starts)),
    [devices, shares, starts],
  );
}

/** What all projects hold in and over quota. Null where not all of them are seen. */
function useQuotas({ shares, isOperator }: Seen, scope: Scope): { inQuota: number; overQuota: number } | null {
  const clusters = useQuery(clustersQuery).data ?? [];
  const chosen = useChosenCluster();
  if (shares.data === undefined || !isOperator || (clusters.length > 1 && chosen === null)) return null;
  const rows = sharesByProject(shares.data, scope);
  return {
    inQuota: rows.reduce((sum, each) => sum + each.inQuota, 0),
    overQuota: rows.reduce((sum, each) => sum + each.overQuota, 0),
  };
}
