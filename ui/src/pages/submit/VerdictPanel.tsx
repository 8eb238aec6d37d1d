/** Whether the draft would start now, where, at whose cost; if not, why, and what would. */
import { Button, Loader } from "@mantine/core";
import {
  IconAlertCircle,
  IconArrowBackUp,
  IconCircleCheck,
  IconClock,
  IconHelp,
  IconPlayerPause,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import type { ComponentType, ReactNode } from "react";
import type { Problem } from "@/api/client";
import { sharesQuery, useProjectColour } from "@/api/queries";
import { FairShareBar } from "@/components/FairShareBar";
import { ProjectName } from "@/components/ProjectName";
import { text } from "@/text/submit";
import { NodeStrip } from "./NodeStrip";
import classes from "./Verdict.module.css";
import type { Offer, Standing, Verdict } from "./verdict";

const { verdict: words } = text;

const SHOWN: Record<Standing, { tone: string; icon: ComponentType<{ size?: number; className?: string }> }> = {
  blank: { tone: "stopped", icon: IconHelp },
  checking: { tone: "stopped", icon: IconHelp },
  starts: { tone: "running", icon: IconCircleCheck },
  preempts: { tone: "over", icon: IconArrowBackUp },
  waits: { tone: "pending", icon: IconClock },
  unknown: { tone: "stopped", icon: IconHelp },
  suspended: { tone: "stopped", icon: IconPlayerPause },
  never: { tone: "pending", icon: IconAlertCircle },
  refused: { tone: "stopped", icon: IconAlertCircle },
  failed: { tone: "failed", icon: IconAlertCircle },
};

/** The verdict in one line. */
export function headline({ standing, forecast, problems }: Verdict): string {
  const nodes = (forecast?.places ?? []).map((each) => each.node);
  switch (standing) {
    case "starts":
      return nodes.length === 0 ? words.startsNow : words.starts(nodes);
    case "preempts":
      return nodes.length === 0 ? words.preemptsShort : words.preempts(nodes);
    case "refused":
      return words.refused(problems.length);
    default:
      return words[standing];
  }
}

export function Headline({ verdict, isShort = false }: { verdict: Verdict; isShort?: boolean }) {
  const { tone, icon: Icon } = SHOWN[verdict.standing];
  return (
    <div
      className={clsx(classes.headline, verdict.isChecking && classes.old, isShort && classes.short)}
      style={{ color: `var(--${tone})`, background: `var(--${tone}-tint)` }}
      data-standing={verdict.isChecking ? "checking" : verdict.standing}
    >
      <Icon size={20} className={classes.icon!} />
      <strong>{headline(verdict)}</strong>
      {verdict.isChecking && <Loader size={14} color="currentColor" aria-label={words.checking} />}
    </div>
  );
}

interface Props {
  verdict: Verdict;
  offers: Offer[] | null;
  project: string;
  onOffer: (offer: Offer) => void;
  onProblem: (problem: Problem) => void;
  isWaitingAnyway: boolean;
  onWaitAnyway: (wait: boolean) => void;
}

export function VerdictPanel(props: Props) {
  const { verdict, project } = props;
  const { forecast, standing, problems } = verdict;
  if (project === "") return <p className={classes.words}>{words.needsProject}</p>;
  return (
    <div className={classes.panel} aria-live="polite">
      <Headline verdict={verdict} />
      {forecast !== null && standing !== "starts" && <p className={classes.words}>{sentence(forecast.message)}</p>}
      {standing === "failed" && (
        <p className={classes.words}>{String((verdict.error as Error | null)?.message ?? "")}</p>
      )}
      {problems.length > 0 && <Problems problems={problems} onProblem={props.onProblem} />}
      {(forecast?.victims ?? []).length > 0 && (
        <Part title={words.victims}>
          <ul className={classes.list}>
            {forecast!.victims!.map((each) => (
              <li key={`${each.project}/${each.workload}`}>
                <Link
                  to="/workloads"
                  search={{ f: [`name==${each.workload}`] } as never}
                  className={classes.name}
                  title={each.workload}
                >
                  {each.workload}
                </Link>
                <ProjectName project={each.project} />
                <span className={classes.dim}>{words.victim(each.pods)}</span>
              </li>
            ))}
          </ul>
        </Part>
      )}
      {(forecast?.places ?? []).length > 0 && (
        <Part title={words.places}>
          {forecast!.places!.slice(0, 4).map((each) => (
            <NodeStrip key={each.node} node={each.node} pods={each.pods} />
          ))}
        </Part>
      )}
      <ShareBar verdict={verdict} project={project} />
      {(standing === "waits" || standing === "never") && <Offers offers={props.offers} onOffer={props.onOffer} />}
      {(standing === "never" || props.isWaitingAnyway) && (
        <Part title={words.waitAnyway} isHidden>
          <Button
            size="compact-sm"
            variant={props.isWaitingAnyway ? "light" : "default"}
            aria-pressed={props.isWaitingAnyway}
            onClick={() => props.onWaitAnyway(!props.isWaitingAnyway)}
          >
            {words.waitAnyway}
          </Button>
          <p className={classes.dim}>{words.waitAnywayHint}</p>
        </Part>
      )}
    </div>
  );
}

function sentence(message: string): string {
  return message === "" ? "" : `${message[0]!.toUpperCase()}${message.slice(1)}.`;
}

function Part({ title, isHidden = false, children }: { title: string; isHidden?: boolean; children: ReactNode }) {
  return (
    <section className={classes.part} aria-label={title}>
      {!isHidden && <h3 className={classes.title}>{title}</h3>}
      {children}
    </section>
  );
}

function Problems({ problems, onProblem }: { problems: Problem[]; onProblem: (problem: Problem) => void }) {
  return (
    <ul className={classes.problems}>
      {problems.map((each, number) => (
        <li key={number}>
          {each.field ? (
            <button type="button" className={classes.problem} onClick={() => onProblem(each)}>
              {each.what}
            </button>
          ) : (
            <span>{each.what}</span>
          )}
          {each.fix && <span className={classes.dim}>{each.fix}</span>}
        </li>
      ))}
    </ul>
  );
}

function Offers({ offers, onOffer }: { offers: Offer[] | null; onOffer: (offer: Offer) => void }) {
  if (offers === null) return <p className={classes.dim}>{words.trying}</p>;
  if (offers.length === 0) return <p className={classes.dim}>{words.noAlternative}</p>;
  return (
    <Part title={words.alternatives}>
      <div className={classes.offers}>
        {offers.map((each) => (
          <Button key={`${each.what}${each.value}`} size="compact-sm" onClick={() => onOffer(each)}>
            {offerWords(each)}
            {each.outcome === "preempts" && <span className={classes.by}>{words.byPreempting}</span>}
          </Button>
        ))}
      </div>
    </Part>
  );
}

function offerWords({ what, value }: Offer): string {
  if (what === "gpus") return words.gpusStart(Number(value));
  if (what === "workers") return words.workersStart(Number(value));
  return what === "pool" ? words.poolStarts(String(value)) : words.preemptibleStarts;
}

/** The bar of the project with this request, dashed. */
function ShareBar({ verdict, project }: { verdict: Verdict; project: string }) {
  const shares = useQuery(sharesQuery()).data;
  const colour = useProjectColour();
  const pool = verdict.forecast?.pool ?? shares?.pools[0]?.nodePool;
  const share = shares?.shares.find(
    (each) => each.kind === "project" && each.name === project && each.nodePool === pool,
  );
  const asked = verdict.answer?.workloadRequestedResources?.gpu?.request ?? 0;
  if (share === undefined || verdict.answer === null) return null;
  const held = share.inQuota + share.overQuota;
  const scale = Math.max(share.quota ?? 0, share.fairShare, held + asked, 1) * 1.12;
  return (
    <section className={classes.part} aria-label={words.share}>
      <h3 className={classes.title}>
        {words.share}
        <span className={classes.dim}>{words.pool(share.nodePool)}</span>
      </h3>
      <Link to="/projects/$project" params={{ project }} className={classes.bar} aria-label={project}>
        <FairShareBar share={share} colour={colour(project)} scale={scale} size="hero" labels request={asked} />
      </Link>
    </section>
  );
}
