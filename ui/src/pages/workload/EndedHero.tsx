import { Button } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { fetchText } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { plainLine } from "@/components/logLines";
import { Moment, useNow } from "@/components/Moment";
import { StatusIcon } from "@/components/StatusBadge";
import { between, clock, duration, UNKNOWN } from "@/model/format";
import { resume } from "@/model/workloadActions";
import { text } from "@/text/workload";
import { livesQuery, type Pod, type Workload } from "./queries";
import { Figure } from "./RunningHero";
import classes from "./Workload.module.css";
import type { Tab } from "./WorkloadView";

function Hero({ workload, title, children }: { workload: Workload; title: string; children: ReactNode }) {
  const message = workload.phaseMessage;
  return (
    <section className={classes.hero} aria-label={title}>
      <div className={classes.heroHead}>
        <h2 className={classes.heroTitle}>
          <StatusIcon phase={workload.phase} size={20} />
          <span>{title}</span>
        </h2>
      </div>
      {message !== "" && <p className={classes.heroSentence}>{`${message[0]!.toUpperCase()}${message.slice(1)}`}</p>}
      {children}
    </section>
  );
}

/** The pod whose failure ended it: the last one that did not end well. */
export function failedPod(lives: readonly Pod[]): Pod | null {
  const ended = lives.filter((each) => each.outcome != null && (each.exitCode ?? 0) !== 0);
  const rest = ended.length > 0 ? ended : lives.filter((each) => each.problem !== "");
  return rest.reduce<Pod | null>((last, each) => (last === null || each.since > last.since ? each : last), null);
}

export function FailedHero({
  workload,
  go,
}: {
  workload: Workload;
  go: (tab: Tab, more?: Record<string, unknown>) => void;
}) {
  const lives = useQuery(livesQuery(workload.id)).data ?? [];
  const pod = failedPod(lives);
  const now = useNow();
  const code = pod?.exitCode ?? null;
  const likely = pod?.problem || (code === null ? "" : (text.failed.exits[code] ?? "")) || pod?.detail || "";
  return (
    <Hero workload={workload} title={workload.reason === "back-off" ? text.failed.again : text.failed.title}>
      <div className={classes.figures}>
        {workload.nextTryAt && (
          <Figure name={text.failed.nextTry} value={duration(Math.max(0, Date.parse(workload.nextTryAt) - now))} />
        )}
        <Figure name={text.failed.exit} value={code ?? UNKNOWN} note={pod?.name} />
        <Figure name={text.completed.ran} value={runTime(workload)} note={text.failed.tries(workload.failedTries)} />
        {likely !== "" && (
          <div className={classes.likely}>
            <span className={classes.figureName}>{text.failed.cause}</span>
            <span>{likely}</span>
          </div>
        )}
      </div>
      <LastLines workload={workload} pod={pod} onWhole={() => go("log")} />
    </Hero>
  );
}

/** The end of the log, where the cause usually stands. A pod that never started has none. */
function LastLines({ workload, pod, onWhole }: { workload: Workload; pod: Pod | null; onWhole: () => void }) {
  const id = pod?.startedAt ? pod.id : null;
  const query = useQuery({
    queryKey: ["workloads", "lastLines", workload.id, id],
    queryFn: () => fetchText(`/api/v1/workloads/${workload.id}/logs?tail=20&pod=${encodeURIComponent(id!)}`),
    enabled: id !== null,
    retry: false,
  });
  const lines = (query.data ?? "").replace(/\n$/, "").split("\n").map(plainLine).join("\n");
  if (id === null || query.isError) return null;
  return (
    <div className={classes.lastLines}>
      <div className={classes.lastLinesHead}>
        <h3 className={classes.subtitle}>{text.failed.lastLines}</h3>
        <Button size="compact-xs" variant="subtle" onClick={onWhole}>
          {text.failed.wholeLog}
        </Button>
      </div>
      <pre className={classes.lines} tabIndex={0}>
        {lines === "" ? text.failed.noLines : lines}
      </pre>
    </div>
  );
}

function runTime(workload: Workload): string {
  return clock(
    workload.startedAt ? between(workload.startedAt, workload.completedAt ?? workload.phaseSince, Date.now()) : null,
  );
}

export function StoppedHero({ workload }: { workload: Workload }) {
  const isHeld = useWritesHeld();
  const mayChange = useMay("workload.update") && !isHeld;
  const isLimit = workload.classicStatus === "TimedOut";
  return (
    <Hero workload={workload} title={isLimit ? text.stopped.timedOut : text.stopped.title}>
      <div className={classes.figures}>
        <Figure
          name={text.stopped.title}
          value={<Moment at={workload.phaseSince} />}
          {...(workload.suspendedBy ? { note: text.stopped.by(workload.suspendedBy) } : {})}
        />
        <Figure name={text.completed.ran} value={runTime(workload)} />
      </div>
      <div className={classes.heroRow}>
        <Button
          variant="filled"
          leftSection={<IconPlayerPlay size={16} />}
          disabled={!mayChange}
          onClick={() => void resume([workload.id])}
        >
          {text.stopped.resume}
        </Button>
        <span className={classes.hint}>{text.stopped.hint}</span>
      </div>
    </Hero>
  );
}

export function CompletedHero({ workload }: { workload: Workload }) {
  return (
    <Hero workload={workload} title={text.completed.title}>
      <div className={classes.figures}>
        <Figure name={text.completed.title} value={<Moment at={workload.completedAt} />} />
        <Figure name={text.completed.ran} value={runTime(workload)} />
      </div>
      <p className={classes.heroSentence}>{text.completed.hint}</p>
    </Hero>
  );
}

export function DeletedHero({ workload }: { workload: Workload }) {
  const isGone = workload.phase === "Deleted";
  return (
    <Hero workload={workload} title={isGone ? text.deleted.title : text.deleted.deleting}>
      <div className={classes.figures}>
        <Figure name={text.deleted.title} value={<Moment at={workload.deletedAt} />} />
        <Figure name={text.completed.ran} value={runTime(workload)} />
      </div>
      <p className={classes.heroSentence}>{text.deleted.hint}</p>
    </Hero>
  );
}
