import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { Elapsed } from "@/components/Moment";
import { ProjectName } from "@/components/ProjectName";
import { Empty } from "@/components/states";
import { gpus, percent, UNKNOWN } from "@/model/format";
import { text } from "@/text/overview";
import { CountedTitle } from "./CountedTitle";
import { SplitBar } from "./figures";
import { PartCard } from "./PartCard";
import { runningQuery, type Scope, useMeasuredToo } from "./questions";
import classes from "./tables.module.css";

const { running: words } = text;

interface Props {
  scope: Scope;
  /** All that run, as the figures count them. */
  count: number;
  /** Workloads beyond their project's quota, by the rule of the map. */
  overQuota: ReadonlySet<string>;
  className?: string | undefined;
}

export function RunningCard({ scope, count, overQuota, className }: Props) {
  useMeasuredToo("workloads");
  const query = useQuery(runningQuery(scope));
  return (
    <PartCard
      query={query}
      className={className}
      title={<CountedTitle title={words.title} count={count} phase="Running" />}
      label={words.title}
      flush
      rows={8}
      aside={
        <Link to="/workloads" search={{ f: ["phase==Running"] }}>
          {words.all}
        </Link>
      }
    >
      {(rows) =>
        rows.length === 0 ? (
          <Empty
            title={words.empty}
            hint={words.emptyHint}
            action={
              <Button component={Link} to="/submit">
                {words.start}
              </Button>
            }
          />
        ) : (
          <>
            <div className={classes.scroll}>
              <RunningTable rows={rows} overQuota={overQuota} />
            </div>
            {count > rows.length && (
              <div className={classes.more}>
                <Link to="/workloads" search={{ f: ["phase==Running"] }}>
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

interface TableProps {
  rows: Schema<"WorkloadItem">[];
  overQuota: ReadonlySet<string>;
}

function RunningTable({ rows, overQuota }: TableProps) {
  const number = classes.number;
  const wide = classes.wide;
  return (
    <table className={classes.table}>
      <caption className="visually-hidden">{words.title}</caption>
      <thead>
        <tr>
          <th scope="col">{words.columns.job}</th>
          <th scope="col">{words.columns.project}</th>
          <th scope="col" className={wide}>
            {words.columns.user}
          </th>
          <th scope="col" className={wide}>
            {words.columns.type}
          </th>
          <th scope="col" className={wide}>
            {words.columns.node}
          </th>
          <th scope="col" className={number}>
            {words.columns.gpus}
          </th>
          <th scope="col" className={number}>
            {words.columns.runTime}
          </th>
          <th scope="col" className={`${number} ${wide}`}>
            {words.columns.progress}
          </th>
          <th scope="col" className={`${number} ${wide}`}>
            {words.columns.utilization}
          </th>
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
            <td title={each.projectName}>
              <ProjectName project={each.projectId} name={each.projectName} />
            </td>
            <td className={wide} title={each.submittedBy}>
              <span className={classes.user}>{each.submittedBy}</span>
            </td>
            <td className={wide}>{text.types[each.type] ?? each.type}</td>
            <td className={wide} title={each.currentNodes?.join(", ")}>
              <NodeNames names={each.currentNodes ?? []} />
            </td>
            <td className={number}>
              {overQuota.has(each.id) && (
                <span className={classes.striped} role="img" aria-label={words.over} title={words.over} />
              )}
              {gpus(each.allocatedResources?.gpu)}
            </td>
            <td className={number}>
              <Elapsed from={each.startedAt} />
            </td>
            <td className={`${number} ${wide}`}>
              <Progress percentDone={each.measured?.progressPercent} />
            </td>
            <td className={`${number} ${wide}`}>{percent(each.measured?.gpuUtilization)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function NodeNames({ names }: { names: string[] }) {
  const [first] = names;
  if (first === undefined) return <>{UNKNOWN}</>;
  return (
    <Link to="/nodes/$node" params={{ node: first }}>
      {words.nodes(first, names.length - 1)}
    </Link>
  );
}

function Progress({ percentDone }: { percentDone: number | null | undefined }) {
  if (percentDone == null) return <>{UNKNOWN}</>;
  return (
    <span className={classes.progress}>
      <SplitBar thin whole={100} parts={[{ amount: percentDone, kind: "solid" }]} />
      <b>{percent(percentDone)}</b>
    </span>
  );
}
