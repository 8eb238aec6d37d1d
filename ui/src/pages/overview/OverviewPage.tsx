import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { clustersQuery } from "@/api/queries";
import { Page } from "@/components/Page";
import { useChosenCluster, useOneCluster } from "@/frame/cluster";
import { headline } from "@/model/headline";
import { DemoNarration } from "@/pages/welcome/DemoCard";
import { headline as headlineText, text } from "@/text/overview";
import { ClustersCard } from "./ClustersCard";
import { CpuChart, CpuProjects, CpuTiles } from "./CpuView";
import { GpuView } from "./GpuView";
import { ErrorsCard, LongestCard } from "./InsightCards";
import classes from "./OverviewPage.module.css";
import type { Scope } from "./questions";
import { ScopeFilters } from "./ScopeFilters";
import { useScope } from "./scope";
import { failedIn, type Seen, useSeen } from "./seen";
import { WelcomeBanner } from "./WelcomeBanner";

/** Is the pool well and fairly used, and what needs me? */
export function OverviewPage() {
  const { scope, tab, set } = useScope();
  const seen = useSeen(scope);
  const said = seen.facts === undefined ? { title: headlineText.loading, lead: "" } : headline(seen.facts);
  const clusters = useQuery(clustersQuery).data ?? [];
  const chosen = useChosenCluster();
  return (
    <Page
      title={said.title}
      tab={text.tab}
      lead={said.lead}
      actions={
        <>
          <ScopeFilters scope={scope} set={set} />
          <SegmentedControl
            size="xs"
            aria-label={text.view}
            value={tab}
            onChange={(value) => set({ tab: value === "cpu" ? "cpu" : "" })}
            data={[
              { value: "gpu", label: text.views.gpu },
              { value: "cpu", label: text.views.cpu },
            ]}
          />
        </>
      }
    >
      <WelcomeBanner />
      <DemoNarration />
      {clusters.length > 1 && chosen === null && <ClustersCard clusters={clusters} />}
      {tab === "cpu" ? <CpuView seen={seen} scope={scope} /> : <GpuView seen={seen} scope={scope} />}
    </Page>
  );
}

function CpuView({ seen, scope }: { seen: Seen; scope: Scope }) {
  const one = useOneCluster();
  return (
    <>
      {!seen.isFiguresRefused && <CpuTiles figures={seen.figures.data} scope={scope} />}
      <div className={classes.halves}>
        <CpuChart cluster={one?.uuid} pool={scope.pool} />
        <CpuProjects scope={scope} />
        <ErrorsCard scope={scope} count={failedIn(seen.figures.data)} />
        <LongestCard scope={scope} />
      </div>
    </>
  );
}
