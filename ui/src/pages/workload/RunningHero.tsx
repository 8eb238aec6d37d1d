import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Elapsed, Moment, useNow } from "@/components/Moment";
import { StatusIcon } from "@/components/StatusBadge";
import { bytes, moment, percent, UNKNOWN } from "@/model/format";
import { isWeb } from "@/pages/workloads/WorkloadLinks";
import { text } from "@/text/workload";
import { expectedEnd } from "./expectedEnd";
import { measuredQuery, type Workload } from "./queries";
import classes from "./Workload.module.css";
import { Connect } from "./WorkloadActions";
import { WorkloadDevices } from "./WorkloadDevices";

const words = text.running;

/** How it runs: use, progress, expected end, its devices, and the way to its tools. */
export function RunningHero({ workload }: { workload: Workload }) {
  const measured = useQuery(measuredQuery(workload.id)).data;
  const total = measured?.total;
  const hasGpus = (workload.workloadRequestedResources?.gpu?.request ?? 0) > 0;
  const isStarting = workload.phase === "Initializing";
  const title = isStarting ? words.starting : workload.phase === "Degraded" ? words.degraded : words.title;
  return (
    <section className={classes.hero} aria-label={title}>
      <div className={classes.heroHead}>
        <h2 className={classes.heroTitle}>
          <StatusIcon phase={workload.phase} size={20} />
          <span>{title}</span>
          {workload.startedAt && (
            <span className={classes.heroTime}>
              <Elapsed from={workload.startedAt} />
            </span>
          )}
        </h2>
        <div className={classes.heroButtons}>
          <Connect urls={(workload.urls ?? []).filter(isWeb)} />
        </div>
      </div>
      {workload.phaseMessage !== "" && <p className={classes.heroSentence}>{workload.phaseMessage}</p>}
      <div className={classes.figures}>
        {hasGpus && (
          <>
            <Figure
              name={words.utilization}
              value={percent(total?.gpuUtilization)}
              part={total?.gpuUtilization ?? null}
            />
            <Figure
              name={words.gpuMemory}
              value={bytes(total?.gpuMemoryBytes)}
              note={
                total?.gpuMemoryAllocatedBytes ? words.of("", bytes(total.gpuMemoryAllocatedBytes)).trim() : undefined
              }
              part={share(total?.gpuMemoryBytes, total?.gpuMemoryAllocatedBytes)}
            />
          </>
        )}
        <Figure name={words.cpu} value={total?.cpuCores?.toFixed(2) ?? UNKNOWN} />
        <Figure name={words.memory} value={bytes(total?.memoryBytes)} />
        <Figure name={words.progress} value={percent(total?.progressPercent)} part={total?.progressPercent ?? null} />
        <End workload={workload} progress={total?.progressPercent ?? null} />
      </div>
      <WorkloadDevices workload={workload} {...(measured === undefined ? {} : { measured })} />
      {total && (
        <p className={classes.measuredAt}>
          {words.measured(moment(total.at))}
          {total.simulated && hasGpus && ` · ${words.simulated}`}
        </p>
      )}
    </section>
  );
}

function share(part: number | null | undefined, all: number | null | undefined): number | null {
  return part == null || !all ? null : (100 * part) / all;
}

interface FigureProps {
  name: string;
  value: ReactNode;
  note?: ReactNode;
  /** In percent, drawn as a bar. */
  part?: number | null;
}

export function Figure({ name, value, note, part }: FigureProps) {
  return (
    <div className={classes.figure}>
      <span className={classes.figureName}>{name}</span>
      <span className={classes.figureValue}>{value}</span>
      {note !== undefined && <span className={classes.figureNote}>{note}</span>}
      {part != null && (
        <span className={classes.track} aria-hidden="true">
          <span style={{ width: `${Math.min(100, Math.max(0, part))}%` }} />
        </span>
      )}
    </div>
  );
}

function End({ workload, progress }: { workload: Workload; progress: number | null }) {
  const now = useNow();
  const { deadlineSeconds } = (workload.spec ?? {}) as { deadlineSeconds?: number };
  const end = expectedEnd({ startedAt: workload.startedAt, deadlineSeconds, progressPercent: progress }, now);
  const at = (time: number) => new Date(time).toISOString();
  const shown = end.at ?? end.limitAt;
  const notes = [
    end.from !== null && end.to !== null ? words.atPace(moment(at(end.from), now), moment(at(end.to), now)) : null,
    end.limitAt !== null ? words.byLimit(moment(at(end.limitAt), now)) : null,
  ].filter((each) => each !== null);
  return (
    <Figure
      name={words.ends}
      value={shown === null ? UNKNOWN : <Moment at={at(shown)} />}
      note={notes.length === 0 ? words.noEnd : notes.join(" · ")}
    />
  );
}
