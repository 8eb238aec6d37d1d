/** What the overview asks, and the facts for its headline. */
import { useQuery } from "@tanstack/react-query";
import { useCallback } from "react";
import type { Schema } from "@/api/client";
import { clustersQuery, devicesQuery, sharesQuery, useMe } from "@/api/queries";
import { useExpectedStarts } from "@/components/expectedStarts";
import { devicesIn } from "@/components/gpuMap/devices";
import { useChosenCluster, useOneCluster } from "@/frame/cluster";
import { moment } from "@/model/format";
import type { Facts } from "@/model/headline";
import { withheldIn } from "./idle";
import {
  EXPECTED_ROWS,
  figuresQuery,
  mineQuery,
  nodesQuery,
  type Scope,
  useMeasuredToo,
  waitingQuery,
} from "./questions";
import { isWaitingInQuota, lendersOf, promisedOf } from "./shares";

export type Seen = ReturnType<typeof useSeen>;

export function failedIn(figures: Schema<"OverviewFigures"> | undefined): number {
  return (figures?.workloads.Failed ?? 0) + (figures?.workloads.Degraded ?? 0);
}

/** All answers together; each may be missing. */
export function useSeen(scope: Scope) {
  useMeasuredToo("figures");
  useMeasuredToo("nodes");
  const me = useMe();
  const one = useOneCluster();
  const clusters = useQuery(clustersQuery).data;
  const chosen = useChosenCluster();
  const figures = useQuery(figuresQuery(scope));
  const shares = useQuery({ ...sharesQuery(one?.uuid), enabled: one !== undefined });
  const select = useCallback(
    (page: unknown) => devicesIn(page as Schema<"DevicePage">, scope.cluster, scope.pool),
    [scope],
  );
  const devices = useQuery({ ...devicesQuery, select });
  const waiting = useQuery(waitingQuery(scope));
  const nodes = useQuery(nodesQuery(scope));
  const isOperator = me?.permissions?.includes("node.mark") ?? false;
  const mine = useQuery({ ...mineQuery(me?.username ?? ""), enabled: me !== undefined && !isOperator });
  const waits = (waiting.data?.rows ?? []).map((each) => ({ id: each.id, wait: each.cause }));
  const expected = useExpectedStarts(waits, EXPECTED_ROWS);
  const facts =
    figures.data === undefined
      ? undefined
      : factsOf(figures.data, {
          scope,
          shares: clusters !== undefined && clusters.length > 1 && chosen === null ? undefined : shares.data,
          devices: devices.data,
          nodes: nodes.data?.troubled,
          waitsForGpus: waiting.data?.rows.some((each) => each.cause != null),
          next: nextOf(expected),
          away: clusters
            ?.filter((each) => each.status.state !== "Connected" && each.lastLiveness != null)
            .map((each) => each.name),
          mine: isOperator ? undefined : mine.data,
        });
  return {
    isOperator,
    figures,
    isFiguresRefused: figures.isError && figures.data === undefined,
    shares,
    devices,
    waiting,
    nodes,
    expected,
    facts,
  };
}

function nextOf(expected: ReadonlyMap<string, Schema<"WorkloadWait">>): string | null {
  const starts = [...expected.values()].flatMap((each) => (each.expectedStart ? [each.expectedStart.expectedAt] : []));
  return starts.sort()[0] ?? null;
}

interface Known {
  scope: Scope;
  shares: Schema<"SharesPage"> | undefined;
  devices: Schema<"DevicePage"> | undefined;
  nodes: Schema<"NodeAnswer">[] | undefined;
  waitsForGpus: boolean | undefined;
  next: string | null;
  away: string[] | undefined;
  mine: { running: number; pending: number; gpus: number } | undefined;
}

function factsOf(figures: Schema<"OverviewFigures">, known: Known): Facts {
  const promised = known.shares === undefined ? null : promisedOf(known.shares, known.scope);
  return {
    nodes: figures.nodes,
    readyNodes: figures.readyNodes,
    gpus: figures.gpus,
    readyGpus: figures.readyGpus,
    allocated: figures.allocatedGpus,
    free: figures.freeGpus,
    pending: figures.pending,
    pendingGpus: figures.pendingGpus,
    waitsForGpus: known.waitsForGpus,
    idle: figures.idleAllocatedGpus,
    silent: known.nodes
      ?.filter((each) => each.silentSince)
      .map((each) => ({ name: each.name, since: moment(each.silentSince) })),
    withheld: known.devices === undefined ? undefined : withheldIn(known.devices),
    quotas: promised?.quotas,
    capacity: promised?.capacity,
    waitsInQuota: known.shares === undefined ? undefined : isWaitingInQuota(known.shares, known.scope),
    lenders: known.shares === undefined ? undefined : lendersOf(known.shares, known.scope),
    clustersAway: known.away,
    nextStart: known.next === null ? null : moment(known.next),
    yours: known.mine,
  };
}
