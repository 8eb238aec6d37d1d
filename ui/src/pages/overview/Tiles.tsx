import { IconMoon } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import type { ReactNode } from "react";
import type { Schema } from "@/api/client";
import { useNow } from "@/components/Moment";
import { StatusIcon } from "@/components/StatusBadge";
import { Loading } from "@/components/states";
import { gpus, percent } from "@/model/format";
import { text } from "@/text/overview";
import { Gauge, Sparkline, SplitBar } from "./figures";
import { averageOf, pointsOf } from "./hour";
import { countedQuery, hourQuery, type Scope } from "./questions";
import classes from "./Tiles.module.css";

const { tiles: words } = text;

interface Props {
  figures: Schema<"OverviewFigures"> | undefined;
  scope: Scope;
  cluster: string | undefined;
  /** In and over quota, where shares are seen. */
  quotas: { inQuota: number; overQuota: number } | null;
  waitingSince: string | null | undefined;
  idleNames: string[] | undefined;
  gpuTypes: [string, number][];
  /** Whether the reader sees the work of some projects only: then each figure says what it counts. */
  isPartial: boolean;
}

/** The figures of the pool. Each leads to the list that it counts. */
export function Tiles({ figures, scope, cluster, quotas, waitingSince, idleNames, gpuTypes, isPartial }: Props) {
  if (figures === undefined)
    return (
      <div className={classes.tiles}>
        <Loading height={96} />
      </div>
    );
  const pool = isPartial ? words.ofPool : undefined;
  const yours = isPartial ? words.ofYours : undefined;
  const department = scope.department === undefined ? [] : [`departmentId==${scope.department}`];
  return (
    <section className={classes.tiles} aria-label={words.label}>
      <Tile name={words.allocated} of={pool} to="/map" wide>
        <Figure value={gpus(figures.allocatedGpus)} unit={words.of(figures.gpus)} />
        <SplitBar
          whole={figures.gpus}
          parts={
            quotas === null
              ? [{ amount: figures.allocatedGpus, kind: "solid" }]
              : [
                  { amount: quotas.inQuota, kind: "solid" },
                  { amount: quotas.overQuota, kind: "over" },
                ]
          }
        />
        <span className={classes.note}>
          {quotas !== null && (
            <>
              {words.inQuota(quotas.inQuota)}
              {quotas.overQuota > 0 && (
                <>
                  {" · "}
                  <span className={classes.over}>{words.overQuota(quotas.overQuota)}</span>
                </>
              )}
              {" · "}
            </>
          )}
          {words.free(figures.freeGpus)}
        </span>
      </Tile>
      <UtilizationTile figures={figures} scope={scope} cluster={cluster} of={pool} />
      <RunningTile figures={figures} scope={scope} department={department} of={yours} />
      <Tile
        name={words.pending}
        of={yours}
        icon={<StatusIcon phase="Pending" />}
        tone="pending"
        to="/workloads"
        search={{ f: ["phase==Pending", ...department] }}
      >
        <Figure value={String(figures.pending)} />
        <span className={classes.note}>
          {figures.pending === 0 ? words.nothingWaits : <Waiting asked={figures.pendingGpus} since={waitingSince} />}
        </span>
      </Tile>
      <Tile
        name={words.idle}
        of={pool}
        icon={<IconMoon size={14} stroke={1.8} aria-hidden="true" />}
        to="/map"
        search={{ state: "idle" }}
      >
        <Figure value={gpus(figures.idleAllocatedGpus)} />
        <span className={classes.note}>
          {figures.idleAllocatedGpus === 0
            ? words.noneIdle
            : idleNames !== undefined && idleNames.length > 0
              ? words.idleOf(idleNames)
              : words.idleUnknown}
        </span>
      </Tile>
      <Tile
        name={text.nodes.title}
        of={pool}
        to="/nodes"
        {...(scope.pool ? { search: { f: [`nodePool==${scope.pool}`] } } : {})}
      >
        <Figure value={String(figures.readyNodes)} unit={words.ready(figures.nodes)} />
        <span className={classes.note}>{words.types(gpuTypes)}</span>
      </Tile>
    </section>
  );
}

function Waiting({ asked, since }: { asked: number; since: string | null | undefined }) {
  const now = useNow();
  return <>{words.waiting(asked, since ? now - Date.parse(since) : null)}</>;
}

function RunningTile({
  figures,
  scope,
  department,
  of: counted,
}: {
  figures: Schema<"OverviewFigures">;
  scope: Scope;
  department: string[];
  of: string | undefined;
}) {
  const kinds = useQuery(countedQuery("WORKLOADS_COUNT", scope, "Category")).data;
  const of = (category: string) => kinds?.get(category) ?? 0;
  return (
    <Tile
      name={words.running}
      of={counted}
      icon={<StatusIcon phase="Running" />}
      tone="running"
      to="/workloads"
      search={{ f: ["phase==Running", ...department] }}
    >
      <Figure value={String(figures.running)} />
      {kinds !== undefined && (
        <span className={classes.note}>{words.byKind(of("Train"), of("Build"), of("Deploy"))}</span>
      )}
    </Tile>
  );
}

function UtilizationTile({
  figures,
  scope,
  cluster,
  of,
}: Pick<Props, "scope" | "cluster"> & { figures: Schema<"OverviewFigures">; of: string | undefined }) {
  const hour = useQuery(hourQuery(cluster, scope.pool)).data;
  const series = hour?.series.find((each) => each.type === "GPU_UTILIZATION");
  const shown = percent(figures.gpuUtilization);
  return (
    <Tile name={words.utilization} of={of} to="/analytics">
      <span className={classes.line}>
        <Figure
          value={figures.gpuUtilization == null ? shown : String(Math.round(figures.gpuUtilization))}
          {...(figures.gpuUtilization == null ? {} : { unit: words.percent })}
        />
        <Gauge percent={figures.gpuUtilization} label={words.gauge(shown)} />
        {series !== undefined && <Sparkline points={pointsOf(series.values, hour!.seconds)} label={words.sparkline} />}
      </span>
      <span className={classes.note}>
        {series === undefined ? words.notMeasured : words.average(percent(averageOf(series.values)))}
      </span>
    </Tile>
  );
}

interface TileProps {
  name: string;
  /** What it counts, where that is not clear. */
  of?: string | undefined;
  icon?: ReactNode;
  tone?: "running" | "pending";
  to: string;
  search?: Record<string, unknown>;
  wide?: boolean;
  children: ReactNode;
}

export function Tile({ name, of, icon, tone, to, search, wide = false, children }: TileProps) {
  return (
    <Link to={to as never} search={(search ?? {}) as never} className={clsx(classes.tile, wide && classes.wide)}>
      <span className={classes.name} style={tone === undefined ? undefined : { color: `var(--${tone})` }}>
        {icon}
        {name}
        {of !== undefined && <span className={classes.of}>{of}</span>}
      </span>
      {children}
    </Link>
  );
}

export function Figure({ value, unit }: { value: string; unit?: string }) {
  return (
    <span className={classes.figure}>
      {value}
      {unit !== undefined && <span className={classes.unit}> {unit}</span>}
    </span>
  );
}
