import type { UseQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { Elapsed } from "@/components/Moment";
import { ProjectName } from "@/components/ProjectName";
import { Empty } from "@/components/states";
import { WhyLine } from "@/components/WhyLine";
import { gpus, moment, UNKNOWN } from "@/model/format";
import { text } from "@/text/overview";
import { CountedTitle } from "./CountedTitle";
import { PartCard } from "./PartCard";
import type { Waiting } from "./questions";
import classes from "./tables.module.css";

const { pending: words } = text;

interface Props {
  query: UseQueryResult<{ rows: Waiting[]; count: number; requestedGpus: number }>;
  expected: ReadonlyMap<string, Schema<"WorkloadWait">>;
  className?: string | undefined;
}

/** Who has waited longest, why, and until when. */
export function PendingCard({ query, expected, className }: Props) {
  const count = query.data?.count ?? 0;
  return (
    <PartCard
      query={query}
      className={className}
      title={<CountedTitle title={words.title} count={count} phase="Pending" />}
      label={words.title}
      flush
      rows={3}
      aside={
        <Link to="/workloads" search={{ f: ["phase==Pending"] }}>
          {words.all}
        </Link>
      }
    >
      {({ rows }) =>
        rows.length === 0 ? (
          <Empty title={words.empty} />
        ) : (
          <>
            <div className={classes.scroll}>
              <PendingTable rows={rows} expected={expected} />
            </div>
            {count > rows.length && (
              <div className={classes.more}>
                <Link to="/workloads" search={{ f: ["phase==Pending"] }}>
                  {words.more(count - rows.length)}
                </Link>
              </div>
            )}
          </>
        )
      }
    </PartCard>
  );
}

function PendingTable({ rows, expected }: { rows: Waiting[]; expected: Props["expected"] }) {
  return (
    <table className={classes.table}>
      <caption className="visually-hidden">{words.title}</caption>
      <thead>
        <tr>
          <th scope="col">{words.columns.workload}</th>
          <th scope="col" className={classes.wide}>
            {words.columns.project}
          </th>
          <th scope="col" className={classes.wide}>
            {words.columns.user}
          </th>
          <th scope="col" className={classes.wide}>
            {words.columns.type}
          </th>
          <th scope="col" className={classes.number}>
            {words.columns.gpus}
          </th>
          <th scope="col" className={`${classes.number} ${classes.wide}`}>
            {words.columns.wait}
          </th>
          <th scope="col">{words.columns.why}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((each) => (
          <tr key={each.id}>
            <td title={each.name}>
              <Link to="/workloads/$workload" params={{ workload: each.id }}>
                {each.name}
              </Link>
            </td>
            <td className={classes.wide}>
              <ProjectName project={each.projectId} />
            </td>
            <td className={classes.wide} title={each.submittedBy}>
              <span className={classes.user}>{each.submittedBy}</span>
            </td>
            <td className={classes.wide}>{each.type === undefined ? UNKNOWN : (text.types[each.type] ?? each.type)}</td>
            <td className={classes.number}>{gpus(each.requestedGPU)}</td>
            <td className={`${classes.number} ${classes.wide}`}>
              <Elapsed from={each.waitingSince ?? each.createdAt} />
            </td>
            <td className={classes.why}>
              <WhyLine cause={each.cause} reason={each.reason} message={each.message} clamp />
              {each.cause != null && <Expected wait={expected.get(each.id)} />}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Expected({ wait }: { wait: Schema<"WorkloadWait"> | undefined }) {
  if (wait === undefined || !wait.waits) return null;
  const start = wait.expectedStart;
  if (start == null)
    return wait.estimate === "no-basis" ? (
      <span className={classes.expected} title={words.noBasisHint}>
        {words.noBasis}
      </span>
    ) : null;
  const range = start.earliestAt || start.latestAt;
  return (
    <span className={classes.expected}>
      <strong>{words.expected(moment(start.expectedAt))}</strong>
      {range &&
        ` ${words.range(start.earliestAt ? moment(start.earliestAt) : null, start.latestAt ? moment(start.latestAt) : null)}`}
      {` ${words.basis(start.basis)}`}
    </span>
  );
}
