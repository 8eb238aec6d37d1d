/** The columns of the list of projects. */
import { IconClock } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import type { Schema } from "@/api/client";
import { FairShareBar } from "@/components/FairShareBar";
import type { Column } from "@/components/Grid";
import { Moment } from "@/components/Moment";
import { ProjectName } from "@/components/ProjectName";
import { StatusBadge } from "@/components/StatusBadge";
import { bytes, duration, gpus, listed, percent, quota, UNKNOWN } from "@/model/format";
import type { Share } from "@/model/lending";
import type { Line } from "@/model/series";
import { text } from "@/text/projects";
import classes from "./ProjectGrid.module.css";
import { Sparkline } from "./Sparkline";

export type ProjectRow =
  | { kind: "project"; id: string; project: Schema<"Project">; share: Share | undefined; isInside: boolean }
  | { kind: "department"; id: string; name: string; count: number; share: Share | undefined; isOpen: boolean };

export interface Facts {
  scale: number;
  capacity: number | null;
  colour: (project: string) => string;
  series: Map<string, Line>;
  used: Map<string, number>;
  running: Map<string, number> | undefined;
  cpu: Map<string, number> | undefined;
  memory: Map<string, number> | undefined;
  subjects: Map<string, string[]> | undefined;
  clusters: Map<string, string>;
  hour: [from: number, to: number];
  peak: number;
  fold: (department: string) => React.ReactNode;
  actions: (project: Schema<"Project">) => React.ReactNode;
}

type Value = (project: Schema<"Project">, share: Share | undefined) => React.ReactNode;
const ofProject = (value: Value) => (row: ProjectRow) =>
  row.kind === "project" ? value(row.project, row.share) : null;
const unlimited = (amount: number, write: (amount: number) => string) => (amount < 0 ? quota(null) : write(amount));

export function allocationRatio(held: number, owed: number): string {
  return owed <= 0 ? UNKNOWN : percent((100 * held) / owed);
}

export function projectColumns(facts: Facts): Column<ProjectRow>[] {
  return [...shareColumns(facts), ...declaredColumns(facts), actionColumn(facts)];
}

function shareColumns(facts: Facts): Column<ProjectRow>[] {
  const { grid } = text;
  return [
    { key: "name", header: grid.project, sort: "name", render: (row) => <Name row={row} facts={facts} />, csv: nameOf },
    {
      key: "bar",
      header: grid.bar(facts.scale, facts.capacity),
      width: "42%",
      render: ({ share, ...row }) =>
        share === undefined ? (
          UNKNOWN
        ) : (
          <div className={classes.bar}>
            <FairShareBar
              share={share}
              colour={row.kind === "project" ? facts.colour(share.name) : "var(--text-3)"}
              scale={facts.scale}
              labels
            />
          </div>
        ),
      csv: (row) => row.share?.fairShare,
    },
    {
      key: "allocated",
      header: grid.allocated,
      sort: "allocatedGPU",
      align: "right",
      render: (row) => <Allocated row={row} />,
      csv: (row) =>
        row.kind === "project" ? (row.share?.allocated ?? row.project.allocatedGpus) : row.share?.allocated,
    },
    {
      key: "pending",
      header: grid.pending,
      align: "right",
      render: ({ share, ...row }) => <Pending share={share} name={nameOf({ share, ...row } as ProjectRow)} />,
      csv: (row) => row.share?.waiting,
    },
    {
      key: "used",
      header: grid.used,
      align: "right",
      render: ofProject((project) => <span title={grid.usedHint}>{percent(facts.used.get(project.name))}</span>),
      csv: (row) => (row.kind === "project" ? facts.used.get(row.project.name) : null),
    },
    {
      key: "hour",
      header: grid.lastHour,
      render: ofProject((project) => (
        <Sparkline
          line={facts.series.get(project.name)}
          colour={facts.colour(project.name)}
          top={facts.peak}
          from={facts.hour[0]}
          to={facts.hour[1]}
          name={project.name}
        />
      )),
    },
  ];
}

const nameOf = (row: ProjectRow): string => (row.kind === "project" ? row.project.name : row.name);

function Name({ row, facts }: { row: ProjectRow; facts: Facts }) {
  if (row.kind === "department")
    return (
      <span className={classes.department}>
        {facts.fold(row.name)}
        {row.name}
        <span className={classes.second}>{text.grid.departmentOf(row.count)}</span>
      </span>
    );
  const running = facts.running?.get(row.project.name) ?? (facts.running === undefined ? undefined : 0);
  return (
    <span className={clsx(classes.name, row.isInside && classes.inside)}>
      <ProjectName project={row.project.name} />
      {running !== undefined && (
        <Link
          to="/workloads"
          search={{ f: [`projectName==${row.project.name}`, "phase==Running"] } as never}
          className={classes.second}
        >
          {text.grid.running(running)}
        </Link>
      )}
    </span>
  );
}

function Allocated({ row }: { row: ProjectRow }) {
  const held = row.share?.allocated ?? (row.kind === "project" ? row.project.allocatedGpus : undefined);
  return (
    <span className={classes.name}>
      <span>{gpus(held)}</span>
      {row.share !== undefined && row.share.overQuota > 0 && (
        <span className={clsx(classes.second, classes.over)}>{text.grid.over(row.share.overQuota)}</span>
      )}
      {row.share !== undefined && row.share.lent > 0 && (
        <span className={classes.second}>{text.grid.lends(row.share.lent)}</span>
      )}
    </span>
  );
}

export function Pending({ share, name }: { share: Share | undefined; name: string }) {
  if (share === undefined) return <>{UNKNOWN}</>;
  if (share.waiting === 0) return <>{"0"}</>;
  const words = (
    <span className={classes.waits}>
      <IconClock size={13} aria-hidden="true" />
      {gpus(share.waiting)}
    </span>
  );
  if (share.kind === "department") return words;
  return (
    <Link to="/workloads" search={{ f: [`projectName==${name}`, "phase==Pending"] } as never}>
      {words}
    </Link>
  );
}

function declaredColumns(facts: Facts): Column<ProjectRow>[] {
  const { grid } = text;
  const plain = (
    key: string,
    header: string,
    value: (project: Schema<"Project">) => string,
    more: Partial<Column<ProjectRow>> = {},
  ): Column<ProjectRow> => ({
    key,
    header,
    optional: true,
    render: ofProject((project) => value(project)),
    csv: (row) => (row.kind === "project" ? value(row.project) : ""),
    ...more,
  });
  const number = { align: "right" as const };
  const types = (names: string[] | undefined) => (names?.length ? listed(names) : grid.any);
  return [
    plain("status", grid.status, (each) => each.status.phase, {
      render: ofProject((each) => (
        <StatusBadge phase={each.status.phase === "Ready" ? "Running" : "Pending"} word={each.status.phase} plain />
      )),
    }),
    plain("department", grid.department, (each) => each.parent.name, { sort: "parentId" }),
    plain("quota", grid.quota, (each) => unlimited(each.totalResources.gpuQuota, quota), {
      ...number,
      sort: "gpuQuota",
    }),
    plain("ratio", grid.ratio, (each) => allocationRatio(each.allocatedGpus, each.totalResources.gpuQuota), number),
    plain("cpuQuota", grid.cpuQuota, (each) => unlimited(each.totalResources.cpuQuota, (n) => quota(n / 1000)), number),
    plain("cpu", grid.cpuHeld, (each) => amount(facts.cpu?.get(each.name), (n) => (n / 1000).toFixed(1)), number),
    plain("memoryQuota", grid.memoryQuota, (each) => unlimited(each.totalResources.memoryQuota, mib), number),
    plain("memory", grid.memoryHeld, (each) => amount(facts.memory?.get(each.name), megabytes), number),
    plain("pools", grid.pools, poolsOf),
    plain("subjects", grid.subjects, (each) => listed(facts.subjects?.get(each.name) ?? []) || UNKNOWN),
    plain("training", grid.training, (each) => types(each.effective.nodeTypes.training)),
    plain("interactive", grid.interactive, (each) => types(each.effective.nodeTypes.workspace)),
    plain("limits", grid.limits, (each) => limitsOf(each.effective.schedulingRules, "TimeLimit")),
    plain("idle", grid.idle, (each) => limitsOf(each.effective.schedulingRules, "Idle")),
    plain("namespace", grid.namespace, (each) => each.status.namespace),
    plain("createdBy", grid.createdBy, (each) => each.createdBy || UNKNOWN, { sort: "createdBy" }),
    plain("created", grid.created, (each) => each.createdAt, {
      sort: "createdAt",
      render: ofProject((each) => <Moment at={each.createdAt} />),
    }),
    plain("workloads", grid.workloads, (each) => String(each.workloads), {
      ...number,
      sort: "workloads",
      render: ofProject((each) => (
        <Link to="/workloads" search={{ f: [`projectName==${each.name}`] } as never}>
          {each.workloads}
        </Link>
      )),
    }),
    plain("cluster", grid.cluster, (each) => facts.clusters.get(each.clusterId) ?? each.clusterId),
  ];
}

const mib = (amountMib: number) => bytes(amountMib * 1024 * 1024);
const megabytes = (megabyte: number) => bytes(megabyte * 1_000_000);
const amount = (value: number | undefined, write: (value: number) => string) =>
  value === undefined ? UNKNOWN : write(value);

export function poolsOf(project: Schema<"Project">): string {
  return project.resources
    .map((each) => `${each.nodePool?.id ?? "default"} ${unlimited(each.gpu?.deserved ?? 0, quota)}`)
    .join(", ");
}

/** The limits of a kind, in words: `interactive 8 h 00 min`. */
export function limitsOf(rules: Schema<"SchedulingRules">, kind: "TimeLimit" | "Idle"): string {
  const found = Object.entries(rules).filter(([key, value]) => key.includes(kind) && value != null);
  return (
    found
      .map(([key, value]) => `${text.form.rules[key]!.toLowerCase()} ${duration(Number(value) * 1000)}`)
      .join("; ") || UNKNOWN
  );
}

function actionColumn(facts: Facts): Column<ProjectRow> {
  return { key: "actions", header: "", width: 40, render: ofProject((project) => facts.actions(project)) };
}
