import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { Elapsed } from "@/components/Moment";
import { Page } from "@/components/Page";
import { ProjectName } from "@/components/ProjectName";
import { StatusBadge } from "@/components/StatusBadge";
import { wordIn } from "@/model/address";
import { gpus } from "@/model/format";
import { isWaiting } from "@/model/status";
import { text } from "@/text/workload";
import { EventsTab } from "./EventsTab";
import { LivesTab } from "./LivesTab";
import { LogTab } from "./LogTab";
import { MetricsTab } from "./MetricsTab";
import { PodsTab } from "./PodsTab";
import { livesQuery, podsQuery, type Workload } from "./queries";
import { SpecTab } from "./SpecTab";
import { SummaryTab } from "./SummaryTab";
import { TerminalDock } from "./TerminalDock";
import classes from "./Workload.module.css";
import { WorkloadActions } from "./WorkloadActions";
import { rearmWatches } from "./watches";

const TABS = ["summary", "events", "lives", "pods", "log", "metrics", "terminal", "spec"] as const;
export type Tab = (typeof TABS)[number];

export function useTab(): [Tab, (tab: Tab, more?: Record<string, unknown>) => void] {
  const asked = (useSearch({ strict: false }) as Record<string, unknown>).tab;
  const navigate = useNavigate();
  const go = (tab: Tab, more: Record<string, unknown> = {}) =>
    void navigate({ to: ".", search: { ...(tab === "summary" ? {} : { tab }), ...more }, hash: "" } as never);
  return [TABS.find((each) => each === asked) ?? "summary", go];
}

export function WorkloadView({ workload }: { workload: Workload }) {
  const [tab, go] = useTab();
  const lives = useQuery(livesQuery(workload.id)).data;
  const [hasTerminal, setTerminal] = useState(tab === "terminal");
  useEffect(() => {
    if (tab === "terminal") setTerminal(true);
  }, [tab]);
  useEffect(rearmWatches, []);
  const strip = useRef<HTMLElement>(null);
  useEffect(() => {
    if (tab !== "summary")
      strip.current?.querySelector("[aria-current=page]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [tab]);
  const closeTerminal = () => {
    setTerminal(false);
    if (tab === "terminal") go("summary");
  };
  const earlier = new Set(lives?.map((each) => each.incarnation)).size;
  return (
    <Page
      title={workload.name}
      trail={<Trail workload={workload} />}
      chips={<Chips workload={workload} />}
      actions={<WorkloadActions workload={workload} />}
    >
      <nav ref={strip} className={classes.tabs} aria-label={workload.name}>
        {TABS.map((each) => (
          <Link
            key={each}
            to="."
            search={(each === "summary" ? {} : { tab: each }) as never}
            className={classes.tab}
            aria-current={tab === each ? "page" : undefined}
            activeOptions={{ exact: true, includeSearch: true }}
          >
            {text.tabs[each]}
            {each === "lives" && earlier > 0 && <span className={classes.count}>{earlier}</span>}
          </Link>
        ))}
      </nav>
      {tab === "summary" && <SummaryTab workload={workload} go={go} />}
      {tab === "events" && <EventsTab workload={workload} />}
      {tab === "lives" && <LivesTab workload={workload} />}
      {tab === "pods" && <PodsTab workload={workload} />}
      {tab === "log" && <LogTab workload={workload} />}
      {tab === "metrics" && <MetricsTab workload={workload} />}
      {tab === "spec" && <SpecTab workload={workload} />}
      {hasTerminal && <Dock workload={workload} isTab={tab === "terminal"} onClose={closeTerminal} />}
    </Page>
  );
}

/** Below every part of the page once it was opened, so that a session survives a look at the log. */
function Dock({ workload, isTab, onClose }: { workload: Workload; isTab: boolean; onClose: () => void }) {
  const pods = useQuery(podsQuery(workload.id)).data;
  const pod = wordIn((useSearch({ strict: false }) as { pod?: unknown }).pod);
  const running = (pods ?? []).filter((each) => each.phase === "running").map((each) => each.name);
  return <TerminalDock workload={workload} pods={running} firstPod={pod} isLarge={isTab} onClose={onClose} />;
}

function Trail({ workload }: { workload: Workload }) {
  return (
    <>
      <Link to="/workloads">{text.list}</Link>
      <span aria-hidden="true">/</span>
      <ProjectName project={workload.projectId} name={workload.projectName} />
      <span aria-hidden="true">/</span>
      <span className={classes.trailName}>{workload.name}</span>
    </>
  );
}

function Chips({ workload }: { workload: Workload }) {
  const asked = workload.workloadRequestedResources?.gpu?.request ?? null;
  const from = isWaiting(workload) ? (workload.phaseSince ?? workload.createdAt) : workload.startedAt;
  const isGoing = isWaiting(workload) || workload.phase === "Running" || workload.phase === "Degraded";
  return (
    <>
      <span className={classes.badge}>
        <StatusBadge phase={workload.phase} />
        {isGoing && from && (
          <span className={classes.chip}>
            <Elapsed from={from} />
          </span>
        )}
      </span>
      <span className={classes.chip}>{workload.type}</span>
      <span className={classes.chip}>{text.gpus(gpus(asked), asked === 1)}</span>
      <span className={classes.chip}>{workload.preemptible ? text.preemptible : text.notPreemptible}</span>
    </>
  );
}
