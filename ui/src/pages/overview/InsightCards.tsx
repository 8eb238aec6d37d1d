/** Smaller parts of the overview: utilization by kind of work, allocation by pool and type, errors, the longest. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { Elapsed, Moment } from "@/components/Moment";
import { ProjectDot } from "@/components/ProjectName";
import { StatusIcon } from "@/components/StatusBadge";
import { Empty } from "@/components/states";
import { gpus, percent } from "@/model/format";
import { text } from "@/text/overview";
import { CountedTitle } from "./CountedTitle";
import { Sparkline, SplitBar } from "./figures";
import { averageOf, lastOf, pointsOf } from "./hour";
import classes from "./InsightCards.module.css";
import type { IdleHolder } from "./idle";
import { PartCard } from "./PartCard";
import { countedQuery, failedQuery, hourQuery, longestQuery, type Scope } from "./questions";

const KINDS = ["Train", "Build", "Deploy"] as const;

/** Training and interactive work apart, as their use differs. */
export function SplitCard({ cluster, pool }: { cluster: string | undefined; pool: string | undefined }) {
  const query = useQuery(hourQuery(cluster, pool, "Category"));
  return (
    <PartCard query={query} title={text.split.title} note={text.split.note} height={72}>
      {({ series, seconds }) => {
        const found = KINDS.flatMap((kind) => {
          const one = series.find((each) => each.groups?.[0]?.value === kind);
          return one === undefined ? [] : [{ kind, values: one.values }];
        });
        if (found.length === 0) return <p className={classes.quiet}>{text.split.empty}</p>;
        return (
          <ul className={classes.rows}>
            {found.map(({ kind, values }) => (
              <li key={kind} className={classes.split}>
                <Link to="/analytics">{text.split[kind]}</Link>
                <strong>{percent(lastOf(values))}</strong>
                <Sparkline points={pointsOf(values, seconds)} label={text.split[kind]} />
                <span className={classes.quiet}>{text.split.average(percent(averageOf(values)))}</span>
              </li>
            ))}
          </ul>
        );
      }}
    </PartCard>
  );
}

/** What is allocated in each node pool, and by which kind of workload. */
export function BreakdownCard({ scope, pools }: { scope: Scope; pools: Schema<"PoolTotals">[] | undefined }) {
  const byType = useQuery(countedQuery("GPU_ALLOCATION", scope, "Type")).data;
  const shownPools = (pools ?? []).filter((each) => scope.pool === undefined || each.nodePool === scope.pool);
  const types = [...(byType ?? [])].filter(([, amount]) => amount > 0).sort((a, b) => b[1] - a[1]);
  const whole = Math.max(...types.map(([, amount]) => amount), 1);
  return (
    <Card title={text.breakdown.title}>
      {shownPools.length > 0 && (
        <>
          <h3 className={classes.part}>{text.breakdown.byPool}</h3>
          <ul className={classes.rows}>
            {shownPools.slice(0, 6).map((each) => (
              <li key={each.nodePool} className={classes.amount}>
                <Link to="/" search={{ pool: each.nodePool }} title={each.nodePool}>
                  {each.nodePool}
                </Link>
                <SplitBar whole={each.capacity} parts={[{ amount: each.allocated, kind: "solid" }]} />
                <span>{text.breakdown.of(each.allocated, each.capacity)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      <h3 className={classes.part}>{text.breakdown.byType}</h3>
      {types.length === 0 ? (
        <p className={classes.quiet}>{text.breakdown.nothing}</p>
      ) : (
        <ul className={classes.rows}>
          {types.map(([type, amount]) => (
            <li key={type} className={classes.amount}>
              <Link to="/workloads" search={{ f: [`type==${type}`, "phase==Running"] }}>
                {text.types[type] ?? type}
              </Link>
              <SplitBar whole={whole} parts={[{ amount, kind: "solid" }]} />
              <span>{gpus(amount)}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

/** Who holds devices that do nothing. */
export function IdleCard({ holders }: { holders: IdleHolder[] }) {
  if (holders.length === 0) return null;
  return (
    <Card title={text.idle.title} note={text.idle.note}>
      <ul className={classes.rows}>
        {holders.slice(0, 5).map((each) => (
          <li key={each.id} className={classes.work}>
            <ProjectDot project={each.project} />
            <Link to="/workloads/$workload" params={{ workload: each.id }} title={each.name}>
              {each.name}
            </Link>
            <span className={classes.quiet}>{text.idle.gpus(each.devices)}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

export function ErrorsCard({ scope, count }: { scope: Scope; count: number }) {
  const query = useQuery(failedQuery(scope));
  return (
    <PartCard
      query={query}
      title={<CountedTitle title={text.errors.title} count={count} phase="Failed" />}
      label={text.errors.title}
      rows={2}
      {...(count > 0
        ? {
            aside: (
              <Link to="/workloads" search={{ f: ["phase==Failed"] }}>
                {text.errors.all}
              </Link>
            ),
          }
        : {})}
    >
      {(rows) =>
        rows.length === 0 ? (
          <p className={classes.quiet}>{text.errors.empty}</p>
        ) : (
          <ul className={classes.rows}>
            {rows.map((each) => (
              <li key={each.id} className={classes.work}>
                <StatusIcon phase={each.phase} />
                <Link to="/workloads/$workload" params={{ workload: each.id }} title={each.phaseMessage || each.name}>
                  {each.name}
                </Link>
                <span className={classes.quiet} title={each.phaseMessage}>
                  {each.reason}
                </span>
                <span className={classes.quiet}>
                  <Moment at={each.completedAt ?? each.phaseSince} />
                </span>
              </li>
            ))}
          </ul>
        )
      }
    </PartCard>
  );
}

export function LongestCard({ scope }: { scope: Scope }) {
  const query = useQuery(longestQuery(scope));
  return (
    <PartCard query={query} title={text.longest.title} rows={4}>
      {(rows) =>
        rows.length === 0 ? (
          <Empty title={text.longest.empty} />
        ) : (
          <ol className={classes.rows}>
            {rows.map((each) => (
              <li key={each.id} className={classes.work}>
                <ProjectDot project={each.projectId} />
                <Link to="/workloads/$workload" params={{ workload: each.id }} title={each.name}>
                  {each.name}
                </Link>
                <span className={classes.number}>
                  <Elapsed from={each.startedAt} />
                </span>
              </li>
            ))}
          </ol>
        )
      }
    </PartCard>
  );
}
