import type { Column } from "@/components/Grid";
import { Moment } from "@/components/Moment";
import { ProjectName } from "@/components/ProjectName";
import { gpus, quota, UNKNOWN } from "@/model/format";
import { text } from "@/text/decisions";
import { DecisionKindBadge, DecisionSentence, WorkloadLink } from "./DecisionSentence";
import classes from "./DecisionsPage.module.css";
import type { Decision } from "./grouping";

const words = text.columns;

export const COLUMNS: Column<Decision>[] = [
  { key: "at", header: words.at, sort: "at", render: (row) => <Moment at={row.at} />, csv: (row) => row.at },
  { key: "kind", header: words.kind, render: (row) => <DecisionKindBadge kind={row.kind} />, csv: (row) => row.kind },
  {
    key: "sentence",
    header: words.sentence,
    width: "50%",
    render: (row) => (
      <span className={classes.sentence}>
        <DecisionSentence decision={row} />
      </span>
    ),
    csv: (row) => `${row.workloadName} ${row.message}`,
  },
  {
    key: "project",
    header: words.project,
    render: (row) => <ProjectName project={row.projectId} />,
    csv: (row) => row.projectId,
  },
  { key: "gpus", header: words.gpus, align: "right", render: (row) => gpus(row.gpus), csv: (row) => row.gpus },
  {
    key: "figures",
    header: words.figures,
    render: (row) => <Figures decision={row} />,
    csv: (row) => figuresText(row),
  },
  {
    key: "workload",
    header: words.workload,
    optional: true,
    render: (row) => <WorkloadLink decision={row} />,
    csv: (row) => row.workloadName,
  },
  {
    key: "lent",
    header: words.lent,
    optional: true,
    align: "right",
    render: (row) => gpus(row.lentGpus),
    csv: (row) => row.lentGpus,
  },
  { key: "user", header: words.user, optional: true, render: (row) => row.submittedBy, csv: (row) => row.submittedBy },
  {
    key: "nodes",
    header: words.nodes,
    optional: true,
    render: (row) => row.nodes.join(", ") || UNKNOWN,
    csv: (row) => row.nodes.join(" "),
  },
  {
    key: "winner",
    header: words.winner,
    optional: true,
    render: (row) => row.winner ?? UNKNOWN,
    csv: (row) => row.winner,
  },
];

type Queue = NonNullable<Decision["project"]>;

function ofQueue(queue: Queue, when: string): string {
  const name = queue.isHidden ? text.figures.hidden : queue.name;
  return `${name} ${gpus(queue.allocated)} / ${quota(queue.quota)} / ${quota(queue.fairShare)} ${when}`;
}

function figuresText(decision: Decision): string {
  return [
    ...(decision.taken ? [ofQueue(decision.taken, text.figures.before)] : []),
    ...(decision.gaining ? [ofQueue(decision.gaining, text.figures.before)] : []),
    ...(decision.project ? [ofQueue(decision.project, text.figures.after)] : []),
  ].join("; ");
}

/** Held, quota and fair share of the queues: before the decision of those that lose and gain, after it of its own. */
function Figures({ decision }: { decision: Decision }) {
  const rows: [Queue, string][] = [];
  if (decision.taken) rows.push([decision.taken, text.figures.before]);
  if (decision.gaining) rows.push([decision.gaining, text.figures.before]);
  if (decision.project) rows.push([decision.project, text.figures.after]);
  if (rows.length === 0) return <>{UNKNOWN}</>;
  return (
    <ul className={classes.figures}>
      {rows.map(([queue, when], number) => (
        <li key={number} title={text.figures.title(when)}>
          <span className={classes.when}>{when}</span>
          <span className={classes.queue}>{queue.isHidden ? text.figures.hidden : queue.name}</span>
          <strong>{gpus(queue.allocated)}</strong>
          <span>{text.figures.rest(quota(queue.quota), quota(queue.fairShare))}</span>
        </li>
      ))}
    </ul>
  );
}
