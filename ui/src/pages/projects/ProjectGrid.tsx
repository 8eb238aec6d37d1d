/** The list of projects, with departments that fold where there are several. */
import { ActionIcon, Menu } from "@mantine/core";
import { IconChevronDown, IconChevronRight, IconDots } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { clustersQuery, departmentsQuery, useMay, useProjectColour } from "@/api/queries";
import { FairShareBar, ShareLegend } from "@/components/FairShareBar";
import { Grid } from "@/components/Grid";
import { listQuery, useListState } from "@/components/listState";
import { ProjectName } from "@/components/ProjectName";
import { gpus, quota } from "@/model/format";
import { text as frame } from "@/text/frame";
import { text } from "@/text/projects";
import classes from "./ProjectGrid.module.css";
import { type Facts, Pending, type ProjectRow, projectColumns } from "./projectColumns";
import { useAllocation, useRunning, useSubjects } from "./projectFigures";
import { heldLines, type PoolShares, scaleOf, usedNow, useProjectSeries, useSeveralDepartments } from "./shareData";

export interface ProjectActions {
  editQuota: (name: string) => void;
  edit: (name: string) => void;
  remove: (name: string) => void;
  viewPolicy: (name: string) => void;
}

interface Props {
  shares: PoolShares | undefined;
  cluster: string | undefined;
  actions: ProjectActions;
  editing: string | null;
  empty: ReactNode;
}

const HOUR = 3_600_000;

export function ProjectGrid({ shares, cluster, actions, editing, empty }: Props) {
  const [state, setState] = useListState();
  const navigate = useNavigate();
  const isFolding = useSeveralDepartments() && (state.sort === null || state.sort === "parentId");
  const [closed, setClosed] = useState<ReadonlySet<string>>(new Set());
  const query = useProjects(state, isFolding);
  const toggle = (name: string) => {
    const next = new Set(closed);
    if (!next.delete(name)) next.add(name);
    setClosed(next);
  };
  const facts = useFacts(shares, cluster, actions, state.columns, isFolding, (name) => (
    <ActionIcon
      variant="subtle"
      color="gray"
      size="sm"
      onClick={() => toggle(name)}
      aria-expanded={!closed.has(name)}
      aria-label={text.grid.fold(name, !closed.has(name))}
    >
      {closed.has(name) ? <IconChevronRight size={14} /> : <IconChevronDown size={14} />}
    </ActionIcon>
  ));
  const columns = useMemo(() => projectColumns(facts), [facts]);
  const rows = useMemo(
    () => query.data && rowsOf(query.data.projects, shares, isFolding, closed),
    [query.data, shares, isFolding, closed],
  );
  const departments = useQuery(departmentsQuery).data?.map((each) => each.name) ?? [];
  const open = (row: ProjectRow) =>
    row.kind === "project"
      ? void navigate({ to: "/projects/$project", params: { project: row.project.name } } as never)
      : toggle(row.name);
  return (
    <>
      <Grid
        label={text.grid.label}
        rows={rows}
        total={query.data?.total ?? null}
        hasMore={query.data?.next != null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={columns}
        idOf={(row) => row.id}
        nameOf={(row) => row.id}
        state={state}
        onState={setState}
        filterFields={[
          { field: "parentId", label: text.grid.department, choices: departments, operators: ["==", "!="] },
          { field: "allocatedGPU", label: text.grid.allocated, operators: [">=", "<="] },
          { field: "gpuQuota", label: text.grid.quota, operators: [">=", "<="] },
          { field: "workloads", label: text.grid.workloads, operators: [">=", "<="] },
          { field: "createdBy", label: text.grid.createdBy },
        ]}
        onOpen={open}
        views="projects"
        rowClass={(row) => (row.kind === "project" && row.project.name === editing ? classes.editing : undefined)}
        card={(row) => <ProjectCard row={row} facts={facts} />}
        empty={empty}
      />
      <div className={classes.legend}>
        <ShareLegend />
      </div>
    </>
  );
}

function useProjects(state: ReturnType<typeof useListState>[0], isFolding: boolean) {
  const order = isFolding && state.sort === null ? { sortBy: "parentId", sortOrder: "asc" } : {};
  const params = { ...listQuery(state), ...order };
  return useQuery({
    queryKey: ["projects", "list", params],
    placeholderData: keepPreviousData,
    queryFn: async () => {
      const {
        offset: _offset,
        limit: _limit,
        sortBy: _by,
        sortOrder: _order,
        ...counted
      } = params as never as Record<string, unknown>;
      const [page, count] = await Promise.all([
        got(api.GET("/api/v1/org-unit/projects", { params: { query: params } })),
        got(api.GET("/api/v1/org-unit/projects/count", { params: { query: counted } })),
      ]);
      return { ...page, total: (count as Schema<"Count">).count };
    },
  });
}

function rowsOf(
  projects: readonly Schema<"Project">[],
  shares: PoolShares | undefined,
  isFolding: boolean,
  closed: ReadonlySet<string>,
): ProjectRow[] {
  const byName = new Map(shares?.projects.map((each) => [each.name, each]));
  const departments = new Map(shares?.departments.map((each) => [each.name, each]));
  const rows: ProjectRow[] = [];
  let last: string | null = null;
  for (const project of projects) {
    const department = project.parent.name;
    if (isFolding && department !== last) {
      const count = projects.filter((each) => each.parent.name === department).length;
      const share = departments.get(department);
      const isOpen = !closed.has(department);
      rows.push({ kind: "department", id: `department ${department}`, name: department, count, share, isOpen });
    }
    last = department;
    if (isFolding && closed.has(department)) continue;
    rows.push({ kind: "project", id: project.id, project, share: byName.get(project.name), isInside: isFolding });
  }
  return rows;
}

function useFacts(
  shares: PoolShares | undefined,
  cluster: string | undefined,
  actions: ProjectActions,
  chosen: string[] | null,
  isFolding: boolean,
  fold: (name: string) => ReactNode,
): Facts {
  const capacity = shares?.totals?.capacity ?? null;
  const colour = useProjectColour();
  const metrics = useProjectSeries(cluster, shares?.pool, "1h").data;
  const running = useRunning();
  const cpu = useAllocation("CPU_ALLOCATION", chosen?.includes("cpu") ?? false);
  const memory = useAllocation("MEMORY_ALLOCATION", chosen?.includes("memory") ?? false);
  const subjects = useSubjects(chosen?.includes("subjects") ?? false);
  const clusters = useQuery(clustersQuery).data;
  const series = useMemo(() => heldLines(metrics), [metrics]);
  const now = Date.now();
  const values = [...series.values()].flatMap((each) => each.points.map(([, value]) => value ?? 0));
  return {
    scale: scaleOf(isFolding ? (shares?.departments ?? []) : (shares?.projects ?? []), capacity),
    capacity,
    colour,
    series,
    used: usedNow(metrics, now),
    running,
    cpu,
    memory,
    subjects,
    clusters: new Map(clusters?.map((each) => [each.uuid, each.name])),
    hour: [now - HOUR, now],
    peak: Math.max(1, ...values),
    fold,
    actions: (project) => <RowMenu project={project} actions={actions} />,
  };
}

function RowMenu({ project, actions }: { project: Schema<"Project">; actions: ProjectActions }) {
  const mayChange = useMay("project.update");
  const mayDelete = useMay("project.delete");
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="sm" aria-label={text.grid.actions(project.name)}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {mayChange && <Menu.Item onClick={() => actions.editQuota(project.name)}>{text.grid.editQuota}</Menu.Item>}
        {mayChange && <Menu.Item onClick={() => actions.edit(project.name)}>{frame.shared.edit}</Menu.Item>}
        <Menu.Item onClick={() => actions.viewPolicy(project.name)}>{text.policy.view}</Menu.Item>
        {mayDelete && (
          <Menu.Item color="red" onClick={() => actions.remove(project.name)}>
            {frame.shared.delete}
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

function ProjectCard({ row, facts }: { row: ProjectRow; facts: Facts }) {
  const { share } = row;
  return (
    <div className={classes.card}>
      <div className={classes.cardHead}>
        {row.kind === "project" ? (
          <ProjectName project={row.project.name} />
        ) : (
          <span className={classes.department}>
            {facts.fold(row.name)}
            {row.name}
          </span>
        )}
        <span>{`${gpus(share?.allocated)} / ${quota(share === undefined ? undefined : (share.quota ?? null))}`}</span>
        {share !== undefined && share.waiting > 0 && <Pending share={share} name={share.name} />}
        {row.kind === "project" && facts.actions(row.project)}
      </div>
      {share !== undefined && (
        <FairShareBar
          share={share}
          colour={row.kind === "project" ? facts.colour(share.name) : "var(--text-3)"}
          scale={facts.scale}
          labels
        />
      )}
    </div>
  );
}
