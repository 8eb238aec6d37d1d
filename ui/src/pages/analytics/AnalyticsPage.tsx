/** What happened, and is it getting better? Small multiples over one time. */
import { useElementSize } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { clustersQuery } from "@/api/queries";
import { Page } from "@/components/Page";
import { useOneCluster } from "@/frame/cluster";
import { boundsOf } from "@/model/period";
import { samplesFor } from "@/model/series";
import { text } from "@/text/analytics";
import classes from "./Analytics.module.css";
import { ClusterPanels } from "./ClusterPanels";
import { type Scope, useClusterMetrics } from "./data";
import { EstimatesPanel } from "./EstimatesPanel";
import { MomentDrawer } from "./MomentDrawer";
import { NodePanels } from "./NodePanels";
import { ProjectPanels } from "./ProjectPanels";
import { PLACE_TYPES } from "./panels";
import { useAsked } from "./search";
import { Toolbar } from "./Toolbar";
import { WaitTimesPanel } from "./WaitTimesPanel";

/** Zooming in further shows single samples. */
const SHORTEST_MS = 60_000;

export function AnalyticsPage() {
  const [asked, ask] = useAsked();
  const cluster = useOneCluster();
  const clusters = useQuery(clustersQuery).data;
  const { ref, width } = useElementSize();
  const [moment, showMoment] = useState<number | null>(null);
  const chartWidth = width > 1080 ? width / 2 : width;
  const samples = samplesFor(Math.ceil(Math.max(chartWidth, 300) / 200) * 200);
  const scope: Scope = {
    clusterId: cluster?.uuid,
    clusterName: (clusters?.length ?? 0) > 1 ? cluster?.name : undefined,
    period: asked.period,
    samples,
  };
  const place = useClusterMetrics(scope, { types: PLACE_TYPES, pool: asked.filters.pool });
  const at = place.dataUpdatedAt || Date.now();
  const bounds = useMemo(() => boundsOf(asked.period, at), [asked.period, at]);
  const zoom = (from: number, to: number) => {
    const middle = (from + to) / 2;
    const half = Math.max(to - from, SHORTEST_MS) / 2;
    ask({ period: { from: middle - half, to: middle + half } });
  };
  const shared = { scope, asked, bounds, place, onRange: zoom, onMoment: showMoment };
  return (
    <Page title={text.title} lead={text.lead}>
      <Toolbar asked={asked} onAsk={ask} />
      <div ref={ref} className={classes.grid}>
        <ProjectPanels {...shared} />
        <WaitTimesPanel {...shared} />
        <ClusterPanels {...shared} />
        <NodePanels {...shared} />
        <EstimatesPanel scope={scope} asked={asked} />
      </div>
      <MomentDrawer
        at={moment}
        length={(bounds.to - bounds.from) / samples}
        filters={asked.filters}
        onZoom={(from, to) => {
          showMoment(null);
          zoom(from, to);
        }}
        onClose={() => showMoment(null)}
      />
    </Page>
  );
}
