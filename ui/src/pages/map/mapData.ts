/** What the map page asks beside the devices: racks, measurements of devices, start times. */
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, got, type Schema } from "@/api/client";
import { allRows, PAGE_MAX } from "@/api/pages";
import { allNodes, nodesQuery } from "@/api/queries";
import type { Extra } from "@/components/gpuMap/devices";
import type { ColourBy } from "@/components/gpuMap/look";

/** Up to this many nodes, measurements of all devices are read with every sample; above, only when they are shown. */
const MEASURED_NODES = 64;
/** Workloads whose start is read without being asked for. */
const STARTS_MAX = 1000;
const RACK_LABELS = ["topology.kubernetes.io/rack", "rack", "fairpool/rack", "topology.kubernetes.io/zone"];

async function allStarts(): Promise<Map<string, number>> {
  const running = await allRows(
    (offset) =>
      got(api.GET("/api/v1/workloads", { params: { query: { offset, limit: PAGE_MAX, filterBy: "phase==Running" } } })),
    (page) => page.workloads,
  );
  return new Map(running.flatMap((each) => (each.startedAt ? [[each.id, Date.parse(each.startedAt)]] : [])));
}

/** The finest level of a topology above single nodes, else a usual label: what people call a rack. */
function rackLabels(topologies: Schema<"NetworkTopologyPage"> | undefined): string[] {
  const levels = (topologies?.topologies ?? []).flatMap((each) => [...each.levels].reverse());
  return [...levels.filter((each) => each !== "kubernetes.io/hostname"), ...RACK_LABELS];
}

export function useExtra(by: ColourBy, page: Schema<"DevicePage"> | undefined): { extra: Extra; hasRacks: boolean } {
  const nodeCount = page?.nodes.length ?? 0;
  const wantsMeasured = page !== undefined && (nodeCount <= MEASURED_NODES || by === "memory" || by === "temperature");
  const wantsStarts = page !== undefined && (page.workloads.ids.length <= STARTS_MAX || by === "age");
  const labelled = useQuery(nodesQuery).data;
  const measuring = useQuery({
    queryKey: ["measured", "devices"],
    queryFn: () => allNodes({ measured: "devices" }),
    enabled: wantsMeasured,
  }).data;
  const topologies = useQuery({
    queryKey: ["topologies", "all"],
    queryFn: () => got(api.GET("/api/v1/network-topologies")),
  }).data;
  const started = useQuery({ queryKey: ["workloads", "starts"], queryFn: allStarts, enabled: wantsStarts }).data;
  const racks = useMemo(() => {
    const keys = rackLabels(topologies);
    const found = new Map<string, string>();
    for (const node of labelled ?? []) {
      const key = keys.find((each) => node.labels?.[each] !== undefined);
      if (key !== undefined) found.set(node.name, node.labels![key]!);
    }
    return found;
  }, [labelled, topologies]);
  const measured = useMemo(
    () => measuring && new Map(measuring.map((each) => [each.name, each.measured?.devices ?? []])),
    [measuring],
  );
  const extra = useMemo(() => ({ racks, measured, started }), [racks, measured, started]);
  return { extra, hasRacks: racks.size > 0 };
}
