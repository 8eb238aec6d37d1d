import { useQuery } from "@tanstack/react-query";
import { Card } from "@/components/Card";
import { WhyPanel } from "@/components/WhyPanel";
import { isWaiting } from "@/model/status";
import { text } from "@/text/workload";
import { CommandCard } from "./CommandCard";
import { CompletedHero, DeletedHero, FailedHero, StoppedHero } from "./EndedHero";
import { decisionsQuery, type Workload } from "./queries";
import { RequestFacts } from "./RequestFacts";
import { RunningHero } from "./RunningHero";
import { StartNotice } from "./StartNotice";
import { TakenBack } from "./TakenBack";
import { TimelineCard } from "./TimelineCard";
import classes from "./Workload.module.css";
import type { Tab } from "./WorkloadView";

interface Props {
  workload: Workload;
  go: (tab: Tab, more?: Record<string, unknown>) => void;
}

/** First what matters in its phase. */
export function SummaryTab({ workload, go }: Props) {
  const decisions = useQuery(decisionsQuery(workload.id)).data ?? [];
  return (
    <div className={classes.summary}>
      <div className={classes.main}>
        <TakenBack workload={workload} decisions={decisions} />
        <Hero workload={workload} go={go} />
        <TimelineCard workload={workload} decisions={decisions} />
      </div>
      <div className={classes.side}>
        <Card title={text.request.title}>
          <RequestFacts workload={workload} />
        </Card>
        <CommandCard workload={workload} />
        <StartNotice workload={workload} />
      </div>
    </div>
  );
}

function Hero({ workload, go }: Props) {
  if (workload.reason === "back-off") return <FailedHero workload={workload} go={go} />; // the failure, not the wait
  if (isWaiting(workload)) return <WhyPanel workload={workload} />;
  switch (workload.phase) {
    case "Failed":
      return <FailedHero workload={workload} go={go} />;
    case "Stopped":
      return <StoppedHero workload={workload} />;
    case "Completed":
      return <CompletedHero workload={workload} />;
    case "Deleted":
    case "Deleting":
      return <DeletedHero workload={workload} />;
    default:
      return <RunningHero workload={workload} />;
  }
}
