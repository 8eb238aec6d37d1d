/** The columns of the list. Those that are optional are chosen by the reader. */
import type { Column } from "@/components/Grid";
import { Elapsed, Moment } from "@/components/Moment";
import { ProjectName } from "@/components/ProjectName";
import { RowLink } from "@/components/RowLink";
import { between, bytes, gpus, percent, UNKNOWN } from "@/model/format";
import { text as request } from "@/text/workload";
import { text } from "@/text/workloads";
import type { Row } from "./reading";
import { StatusCell } from "./StatusCell";
import { WorkloadLinks } from "./WorkloadLinks";
import classes from "./Workloads.module.css";

const words = text.columns;
const { sources } = request.request;

/** `HH:MM:SS` in whole seconds for files. */
const seconds = (milliseconds: number | null): number | null =>
  milliseconds === null ? null : Math.max(0, Math.round(milliseconds / 1000));

export function requestedGpus(row: Row): number | null {
  return row.workloadRequestedResources?.gpu?.request ?? null;
}

/** What it holds, and what it asks for if that is something else. */
export function gpuWords(row: Row): string {
  const asked = requestedGpus(row);
  const held = row.allocatedResources?.gpu ?? null;
  if (held === null || held === asked || held === 0) return gpus(asked);
  return asked === null ? gpus(held) : text.of(gpus(held), gpus(asked));
}

/** The time that matters in its phase: how long it waits, runs or ran. */
function Time({ row }: { row: Row }) {
  if (row.phase === "Pending" || row.phase === "Creating") return <Elapsed from={row.phaseSince ?? row.createdAt} />;
  return row.startedAt ? <Elapsed from={row.startedAt} to={endOf(row)} /> : <>{UNKNOWN}</>;
}

export function endOf(row: Row): string | null {
  if (row.completedAt) return row.completedAt;
  return ["Stopped", "Deleted", "Failed", "Completed"].includes(row.phase) ? (row.phaseSince ?? null) : null;
}

function runTime(row: Row): number | null {
  return between(row.startedAt, endOf(row), Date.now());
}

function waitTime(row: Row): number | null {
  if (row.phase === "Pending" || row.phase === "Creating")
    return between(row.phaseSince ?? row.createdAt, null, Date.now());
  return row.startedAt ? between(row.createdAt, row.startedAt, Date.now()) : null;
}

const MAIN: Column<Row>[] = [
  {
    key: "name",
    header: words.name,
    sort: "name",
    csv: (row) => row.name,
    render: (row) => (
      <RowLink to={`/workloads/${row.id}`} className={classes.name} title={row.name}>
        {row.name}
      </RowLink>
    ),
  },
  {
    key: "status",
    header: words.status,
    sort: "phase",
    width: "46%",
    csv: (row) => row.phase,
    render: (row) => <StatusCell row={row} />,
  },
  {
    key: "project",
    header: words.project,
    sort: "projectName",
    csv: (row) => row.projectName,
    render: (row) => <ProjectName project={row.projectId} name={row.projectName} />,
  },
  {
    key: "user",
    header: words.user,
    sort: "submittedBy",
    csv: (row) => row.submittedBy,
    render: (row) => (
      <span className={classes.cut} title={row.submittedBy}>
        {row.submittedBy}
      </span>
    ),
  },
  { key: "type", header: words.type, sort: "type", csv: (row) => row.type, render: (row) => row.type },
  {
    key: "gpus",
    header: words.gpus,
    sort: "allocatedGPU",
    align: "right",
    csv: (row) => row.allocatedResources?.gpu ?? null,
    render: gpuWords,
  },
  { key: "time", header: words.time, align: "right", render: (row) => <Time row={row} /> },
  {
    key: "utilization",
    header: words.utilization,
    align: "right",
    csv: (row) => row.measured?.gpuUtilization ?? null,
    render: (row) => percent(row.measured?.gpuUtilization),
  },
];

const MOMENTS: Column<Row>[] = [
  {
    key: "createdAt",
    header: words.createdAt,
    sort: "createdAt",
    csv: (row) => row.createdAt,
    render: (row) => <Moment at={row.createdAt} />,
  },
  {
    key: "startedAt",
    header: words.startedAt,
    sort: "startedAt",
    csv: (row) => row.startedAt,
    render: (row) => <Moment at={row.startedAt} />,
  },
  {
    key: "completedAt",
    header: words.completedAt,
    sort: "completedAt",
    csv: (row) => row.completedAt,
    render: (row) => <Moment at={row.completedAt} />,
  },
  {
    key: "runTime",
    header: words.runTime,
    align: "right",
    csv: (row) => seconds(runTime(row)),
    render: (row) => (row.startedAt ? <Elapsed from={row.startedAt} to={endOf(row)} /> : UNKNOWN),
  },
  {
    key: "waitTime",
    header: words.waitTime,
    align: "right",
    csv: (row) => seconds(waitTime(row)),
    render: (row) =>
      row.phase === "Pending" ? (
        <Elapsed from={row.phaseSince ?? row.createdAt} />
      ) : row.startedAt ? (
        <Elapsed from={row.createdAt} to={row.startedAt} />
      ) : (
        UNKNOWN
      ),
  },
];

const PLACES: Column<Row>[] = [
  {
    key: "department",
    header: words.department,
    sort: "departmentName",
    csv: (row) => row.departmentName,
    render: (row) => row.departmentName,
  },
  {
    key: "node",
    header: words.node,
    csv: (row) => (row.currentNodes ?? []).join(" "),
    render: (row) => {
      const [first, ...others] = row.currentNodes ?? [];
      if (first === undefined) return UNKNOWN;
      return (
        <RowLink to={`/nodes/${encodeURIComponent(first)}`} title={row.currentNodes!.join(", ")}>
          {others.length === 0 ? first : `${first} +${others.length}`}
        </RowLink>
      );
    },
  },
  {
    key: "pool",
    header: words.pool,
    csv: (row) => (row.currentNodePools ?? []).join(" "),
    render: (row) => (row.currentNodePools ?? []).join(", ") || UNKNOWN,
  },
  {
    key: "cluster",
    header: words.cluster,
    sort: "clusterId",
    csv: (row) => row.clusterId,
    render: (row) => row.clusterId,
  },
];

const REQUESTS: Column<Row>[] = [
  {
    key: "image",
    header: words.image,
    csv: (row) => (row.images ?? []).join(" "),
    render: (row) => (
      <span className={classes.cut} title={(row.images ?? []).join(", ")}>
        {(row.images ?? []).join(", ") || UNKNOWN}
      </span>
    ),
  },
  {
    key: "pods",
    header: words.pods,
    sort: "runningPods",
    align: "right",
    csv: (row) => text.podsCount(row.runningPods, row.requestedPods?.number ?? 1),
    render: (row) => text.podsCount(row.runningPods, row.requestedPods?.number ?? 1),
  },
  {
    key: "urls",
    header: words.urls,
    csv: (row) => (row.urls ?? []).join(" "),
    render: (row) => <WorkloadLinks urls={row.urls ?? []} />,
  },
  {
    key: "requestedGpus",
    header: words.requestedGpus,
    sort: "requestedGPU",
    align: "right",
    csv: requestedGpus,
    render: (row) => gpus(requestedGpus(row)),
  },
  {
    key: "gpuMemory",
    header: words.gpuMemory,
    align: "right",
    csv: (row) => row.measured?.gpuMemoryBytes ?? null,
    render: (row) => bytes(row.measured?.gpuMemoryBytes),
  },
  {
    key: "cpu",
    header: words.cpu,
    align: "right",
    csv: (row) => row.allocatedResources?.cpu ?? null,
    render: (row) => row.allocatedResources?.cpu?.toFixed(2) ?? UNKNOWN,
  },
  {
    key: "memory",
    header: words.memory,
    align: "right",
    csv: (row) => row.allocatedResources?.memoryBytes ?? null,
    render: (row) => bytes(row.allocatedResources?.memoryBytes),
  },
  {
    key: "preemptible",
    header: words.preemptible,
    csv: (row) => (row.preemptible ? text.yes : text.no),
    render: (row) => (row.preemptible ? text.yes : text.no),
  },
  {
    key: "priority",
    header: words.priority,
    csv: (row) => row.priorityClassName,
    render: (row) => `${row.priorityClassName} (${row.priority})`,
  },
  {
    key: "progress",
    header: words.progress,
    align: "right",
    csv: (row) => row.measured?.progressPercent ?? null,
    render: (row) => percent(row.measured?.progressPercent),
  },
  { key: "source", header: words.source, csv: (row) => row.source, render: (row) => sources[row.source] ?? row.source },
  { key: "labels", header: words.labels, csv: labelWords, render: (row) => labelWords(row) || UNKNOWN },
  {
    key: "failedTries",
    header: words.failedTries,
    align: "right",
    csv: (row) => row.failedTries,
    render: (row) => row.failedTries,
  },
  {
    key: "classic",
    header: words.classic,
    sort: "status",
    csv: (row) => row.classicStatus,
    render: (row) => row.classicStatus,
  },
  { key: "id", header: words.id, csv: (row) => row.id, render: (row) => row.id },
];

function labelWords(row: Row): string {
  return Object.entries(row.labels ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .join(" ");
}

export const COLUMNS: Column<Row>[] = [
  ...MAIN,
  ...[...PLACES, ...MOMENTS, ...REQUESTS].map((each) => ({ ...each, optional: true })),
];
