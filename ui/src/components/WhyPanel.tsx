/** Why a workload waits: the cause, until when, its project's bar, what is checked, and what would change it. */
import { useQuery } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { sharesQuery, useProjectColour } from "@/api/queries";
import { duration, moment, UNKNOWN } from "@/model/format";
import { estimateRange, headline } from "@/model/waiting";
import { text } from "@/text/why";
import { FairShareBar, type ShareFigures } from "./FairShareBar";
import { useNow } from "./Moment";
import { ProjectName } from "./ProjectName";
import { StatusIcon } from "./StatusBadge";
import { Failed, Loading } from "./states";
import { WhyChanges } from "./WhyChanges";
import { WhyChecks } from "./WhyChecks";
import classes from "./WhyPanel.module.css";
import { useWait } from "./whyQuery";

type Workload = Schema<"WorkloadItem">;

/** What was submitted so recently usually starts at once: no reasons yet, unless the scheduler gives one. */
const FRESH_MS = 5000;
/** Others, such as a dependency, are told at once. */
const PASSING: readonly string[] = ["", "queued", "starting"];

export function WhyPanel({ workload }: { workload: Workload }) {
  const now = useNow();
  const isFresh = Math.abs(now - Date.parse(workload.createdAt)) < FRESH_MS; // clocks may differ
  if (isFresh && workload.wait == null && PASSING.includes(workload.reason)) return <Fresh workload={workload} />;
  return <Why workload={workload} />;
}

function Fresh({ workload }: { workload: Workload }) {
  const isStarting = workload.reason === "starting" || workload.phase !== "Pending";
  return (
    <section className={classes.panel} aria-label={text.panel} aria-busy="true">
      <div className={classes.head}>
        <div className={classes.words}>
          <h2 className={classes.title}>
            <StatusIcon phase="Creating" size={20} />
            <span>{isStarting ? text.fresh.starting : text.fresh.scheduled}</span>
          </h2>
          <p className={classes.sentence}>{isStarting ? text.fresh.startingHint : text.fresh.scheduledHint}</p>
        </div>
      </div>
    </section>
  );
}

function Why({ workload }: { workload: Workload }) {
  const query = useWait(workload.id, true);
  const wait = query.data;
  if (wait === undefined && query.isError)
    return (
      <div className={classes.panel}>
        <Head workload={workload} />
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      </div>
    );
  return (
    <section className={classes.panel} aria-label={text.panel}>
      <Head workload={workload} wait={wait} />
      {wait === undefined ? (
        <div className={classes.band}>
          <Loading height={220} />
        </div>
      ) : (
        <>
          {wait.share && <Bar workload={workload} wait={wait} />}
          {(wait.checks?.length ?? 0) > 0 && (
            <div className={classes.columns}>
              <div className={classes.column}>
                <h3 className={classes.subtitle}>{text.checksTitle}</h3>
                <WhyChecks checks={wait.checks ?? []} />
              </div>
              <div className={classes.column}>
                <h3 className={classes.subtitle}>{text.changesTitle}</h3>
                <WhyChanges changes={wait.changes ?? []} workload={workload} />
              </div>
            </div>
          )}
          <p className={classes.asOf}>{text.asOf(moment(wait.plannedAt ?? wait.takenAt))}</p>
        </>
      )}
    </section>
  );
}

function Head({ workload, wait }: { workload: Workload; wait?: Schema<"WorkloadWait"> | undefined }) {
  const cause = wait?.cause ?? workload.wait;
  const title = headline(cause, workload.reason);
  const message = wait?.message || workload.phaseMessage;
  return (
    <div className={classes.head}>
      <div className={classes.words}>
        <h2 className={classes.title}>
          <StatusIcon phase="Pending" size={20} />
          <span>{title}</span>
        </h2>
        <p className={classes.sentence}>{message === "" ? "" : `${message[0]!.toUpperCase()}${message.slice(1)}.`}</p>
      </div>
      {wait !== undefined && <Expected wait={wait} />}
    </div>
  );
}

/** When it starts, with range and basis; without a basis it says so, and never guesses. */
function Expected({ wait }: { wait: Schema<"WorkloadWait"> }) {
  const now = useNow();
  const start = wait.expectedStart;
  if (!start)
    return (
      <div className={classes.expected}>
        <span className={classes.micro}>{text.expectedStart}</span>
        <span className={classes.figure}>{UNKNOWN}</span>
        <span
          className={classes.micro}
          title={wait.estimate === "not-computed" ? text.notComputedHint : text.noBasisHint}
        >
          {wait.estimate === "not-computed" ? text.notComputed : text.noBasis}
        </span>
      </div>
    );
  const left = Date.parse(start.expectedAt) - now;
  const names = start.basis.map((each) => text.basis[each] ?? each).join(", ");
  return (
    <div className={classes.expected}>
      <span className={classes.micro}>{text.expectedStart}</span>
      <span className={classes.figure}>{moment(start.expectedAt, now)}</span>
      <span className={classes.range}>
        {left > 0 ? text.in(duration(left)) : text.anyMoment}
        {` · ${estimateRange(start, (iso) => moment(iso, now))}`}
      </span>
      <span className={classes.micro}>{text.basisOf(names)}</span>
      {start.waitsFor > 0 && <span className={classes.micro}>{text.waitsFor(start.waitsFor)}</span>}
      {start.first && (
        <span className={classes.micro}>
          {text.slipped(moment(start.first.expectedAt, now), moment(start.first.madeAt, now))}
        </span>
      )}
    </div>
  );
}

function Bar({ workload, wait }: { workload: Workload; wait: Schema<"WorkloadWait"> }) {
  const colour = useProjectColour();
  const shares = useQuery(sharesQuery(workload.clusterId)).data;
  const row = shares?.shares.find(
    (each) =>
      each.kind === "project" && each.name === workload.projectName && each.nodePool === (wait.nodePool ?? "default"),
  );
  const pool = shares?.pools?.find((each) => each.nodePool === (wait.nodePool ?? "default"));
  const share = wait.share!;
  const asked =
    wait.checks?.find((each) => each.check === "room")?.figures?.asked ??
    workload.workloadRequestedResources?.gpu?.request ??
    0;
  const inQuota = share.quota == null ? share.allocated : Math.min(share.allocated, share.quota);
  const figures: ShareFigures = {
    quota: share.quota ?? null,
    fairShare: share.fairShare,
    limit: row?.limit ?? null,
    inQuota,
    overQuota: share.allocated - inQuota,
    waiting: asked,
    lent: 0,
  };
  const scale = Math.max(pool?.capacity ?? 0, share.allocated + asked, share.fairShare, share.quota ?? 0);
  return (
    <div className={classes.bar}>
      <div className={classes.barName}>
        <ProjectName project={workload.projectId} name={workload.projectName} />
        <span className={classes.micro}>{text.withThis}</span>
      </div>
      <FairShareBar
        share={figures}
        colour={colour(workload.projectName)}
        scale={scale}
        size="hero"
        labels
        request={asked}
      />
    </div>
  );
}
