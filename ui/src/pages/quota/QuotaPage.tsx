/** Is what was promised used, and can it be kept? */
import { Button, Group, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { sharesQuery } from "@/api/queries";
import { Notice } from "@/components/Notice";
import { Page } from "@/components/Page";
import { Loaded } from "@/components/states";
import { useOneCluster } from "@/frame/cluster";
import { gpus, percent, quota as quotaText } from "@/model/format";
import tiles from "@/pages/consumption/Consumption.module.css";
import { text } from "@/text/quota";
import classes from "./Quota.module.css";
import { QuotaHistory } from "./QuotaHistory";
import { LowestTable, PoolTable } from "./QuotaTables";
import { type PoolQuota, poolQuotas, ratio, totalOf } from "./ratios";

export function QuotaPage() {
  const cluster = useOneCluster();
  const navigate = useNavigate();
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const pool = typeof search.pool === "string" ? search.pool : undefined;
  const query = useQuery({ ...sharesQuery(cluster?.uuid), enabled: cluster !== undefined });
  const setPool = (value: string | null) =>
    void navigate({
      to: ".",
      search: (before: Record<string, unknown>) => ({ ...before, pool: value ?? undefined }),
    } as never);
  return (
    <Page
      title={text.title}
      lead={text.lead}
      actions={
        <Group gap={8}>
          <Button renderRoot={(props) => <Link to="/what-if" {...props} />}>{text.whatIf}</Button>
          <Button renderRoot={(props) => <Link to="/projects" {...props} />}>{text.edit}</Button>
        </Group>
      }
    >
      <Loaded query={query} height={320}>
        {(answer) => {
          const all = poolQuotas(answer);
          const shown = pool === undefined ? all : all.filter((each) => each.pool === pool);
          const shares = answer.shares.filter((each) => pool === undefined || each.nodePool === pool);
          return (
            <>
              {all.length > 1 && (
                <div className={classes.toolbar}>
                  <Select
                    size="xs"
                    aria-label={text.pool}
                    placeholder={text.allPools}
                    data={all.map((each) => each.pool)}
                    value={pool ?? null}
                    onChange={setPool}
                    clearable
                  />
                </div>
              )}
              {shown.map((each) => (
                <Above key={each.pool} pool={each} />
              ))}
              <Tiles total={totalOf(shown)} />
              <PoolTable pools={all} />
              <div className={classes.pair}>
                <LowestTable shares={shares} kind="department" />
                <LowestTable shares={shares} kind="project" />
              </div>
            </>
          );
        }}
      </Loaded>
      <QuotaHistory clusterId={cluster?.uuid} pool={pool} />
    </Page>
  );
}

function Above({ pool }: { pool: PoolQuota }) {
  if (pool.quota === null || pool.quota <= pool.capacity) return null;
  const more = quotaText(pool.quota - pool.capacity);
  return (
    <Notice tone="careful">
      <p>
        {text.over(pool.pool, quotaText(pool.quota), quotaText(pool.capacity), more)}{" "}
        <Link to="/projects">{text.edit}</Link>
      </p>
    </Notice>
  );
}

function Tiles({ total }: { total: PoolQuota }) {
  const quota = total.quota === null ? text.unlimited : quotaText(total.quota);
  const figures = [
    [
      text.tiles.quota,
      percent(ratio(total.quota ?? 0, total.quota === null ? null : total.capacity)),
      text.hints.quota(quota, quotaText(total.capacity)),
    ],
    [text.tiles.used, percent(ratio(total.allocated, total.quota)), text.hints.used(gpus(total.allocated), quota)],
    [text.tiles.pending, gpus(total.pending), text.hints.pending],
    [text.tiles.unused, gpus(total.unused), text.hints.unused],
  ] as const;
  return (
    <div className={classes.tiles}>
      {figures.map(([label, figure, hint]) => (
        <Link
          key={label}
          className={`${tiles.tile} ${classes.tile}`}
          {...(label === text.tiles.pending
            ? { to: "/workloads", search: { f: ["phase==Pending"] } as never }
            : { to: "/projects" })}
        >
          <div className={tiles.label}>{label}</div>
          <div className={tiles.figure}>{figure}</div>
          <div className={tiles.hint}>{hint}</div>
        </Link>
      ))}
    </div>
  );
}
