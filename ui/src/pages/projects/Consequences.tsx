/** What a planned change does: to workloads, and to every project's share. */
import { IconArrowBackUp, IconArrowRight, IconClock, IconPlayerPlayFilled, IconX } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import type { Schema } from "@/api/client";
import { ProjectName } from "@/components/ProjectName";
import { quota } from "@/model/format";
import { text } from "@/text/projects";
import classes from "./Consequences.module.css";
import { type Consequence, consequencesOf, type Effect } from "./outcomes";

const MOST = 6;

const ICONS: Record<Effect, ReactNode> = {
  starts: <IconPlayerPlayFilled size={16} color="var(--running)" aria-hidden="true" />,
  promised: <IconPlayerPlayFilled size={16} color="var(--running)" aria-hidden="true" />,
  moves: <IconArrowRight size={16} color="var(--completed)" aria-hidden="true" />,
  taken: <IconArrowBackUp size={16} color="var(--over)" aria-hidden="true" />,
  waits: <IconClock size={16} color="var(--pending)" aria-hidden="true" />,
  ends: <IconX size={16} color="var(--stopped)" aria-hidden="true" />,
  other: <IconClock size={16} color="var(--text-3)" aria-hidden="true" />,
};

function words(each: Consequence): string {
  switch (each.effect) {
    case "starts":
      return text.outcome.starts(each.where);
    case "promised":
      return text.outcome.promised(each.where);
    case "moves":
      return text.outcome.moves(each.where);
    case "taken":
      return text.outcome.taken(each.project);
    case "waits":
      return text.outcome.waitsAgain(each.project);
    case "ends":
      return text.outcome.ends;
    default:
      return each.sentence;
  }
}

interface Waiting {
  id: string;
  name: string;
  projectId: string;
}

interface Props {
  answer: Schema<"WhatIfAnswer">;
  /** Those that wait now: who is not named by the plan still does. */
  waiting?: readonly Waiting[];
}

export function Consequences({ answer, waiting = [] }: Props) {
  const [isWhole, showAll] = useState(false);
  const changed = consequencesOf(answer);
  const named = new Set(changed.filter((each) => each.effect !== "other").map((each) => each.workloadId));
  const still = waiting.filter((each) => !named.has(each.id));
  const queue = new Map(answer.queues.map((each) => [each.queue, each]));
  const lines = [
    ...changed
      .filter((each) => each.effect !== "other" || !waiting.some((one) => one.id === each.workloadId))
      .map((each) => (
        <li
          key={each.workloadId + each.effect}
          className={classes.item}
          title={each.sentence}
          data-effect={each.effect}
        >
          {ICONS[each.effect]}
          <span>
            <WorkloadLink id={each.workloadId} name={each.workload} /> {words(each)}
          </span>
        </li>
      )),
    ...still.map((each) => (
      <li key={each.id} className={`${classes.item} ${classes.waits}`} data-effect="still-waits">
        <IconClock size={16} aria-hidden="true" />
        <span>
          <WorkloadLink id={each.id} name={each.name} />{" "}
          {text.outcome.stillWaits(
            each.projectId,
            queue.get(each.projectId)?.changedGpus ?? null,
            queue.get(each.projectId)?.changedFairShare ?? null,
          )}
        </span>
      </li>
    )),
  ];
  if (lines.length === 0) return <p className={classes.waits}>{text.editor.nobody}</p>;
  const shown = isWhole ? lines : lines.slice(0, MOST);
  return (
    <ul className={classes.list}>
      {shown}
      {shown.length < lines.length && (
        <li>
          <button type="button" onClick={() => showAll(true)}>
            {text.editor.more(lines.length - shown.length)}
          </button>
        </li>
      )}
    </ul>
  );
}

function WorkloadLink({ id, name }: { id: string; name: string }) {
  return (
    <Link to="/workloads/$workload" params={{ workload: id } as never}>
      {name}
    </Link>
  );
}

/** Fair share and held of every project, before and after. */
export function SharesBeforeAfter({ answer, names }: { answer: Schema<"WhatIfAnswer">; names?: readonly string[] }) {
  const rows = answer.queues.filter((each) => names === undefined || names.includes(each.queue));
  return (
    <table className={classes.table}>
      <thead>
        <tr>
          <th scope="col">{text.editor.gpus}</th>
          <th scope="col">{text.editor.fairShare}</th>
          <th scope="col">{text.editor.held}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((each) => (
          <tr key={each.queue} data-queue={each.queue}>
            <td>
              <ProjectName project={each.queue} />
            </td>
            <td>
              <Change before={each.originalFairShare} after={each.changedFairShare} />
            </td>
            <td>
              <Change before={each.originalGpus} after={each.changedGpus} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Change({ before, after }: { before?: number | null | undefined; after?: number | null | undefined }) {
  const [old, now] = [before ?? undefined, after ?? undefined];
  if (old === now || old === undefined || now === undefined) return <>{quota(now ?? old)}</>;
  return (
    <span title={text.editor.changed(quota(old), quota(now))}>
      {`${quota(old)} → `}
      <span className={now > old ? classes.more : classes.less}>{quota(now)}</span>
    </span>
  );
}
