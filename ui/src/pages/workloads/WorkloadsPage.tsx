import { Button } from "@mantine/core";
import { keepPreviousData, queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import clsx from "clsx";
import { useCallback, useEffect, useMemo, useState } from "react";
import { projectsQuery, useMay, useProjectColour } from "@/api/queries";
import { changeStream } from "@/api/stream";
import { useWritesHeld } from "@/api/writes";
import { ExpectedStarts, useExpectedStarts } from "@/components/expectedStarts";
import { type Column, Grid } from "@/components/Grid";
import type { FilterField } from "@/components/GridToolbar";
import { changed, useListState } from "@/components/listState";
import { Page } from "@/components/Page";
import { ProjectColours } from "@/components/ProjectName";
import { Empty } from "@/components/states";
import type { ListState } from "@/model/filters";
import { mayResume, maySuspend, remove, resume, suspend } from "@/model/workloadActions";
import { text } from "@/text/workloads";
import { COLUMNS } from "./columns";
import { PhaseTabs } from "./PhaseTabs";
import { RowMenu } from "./RowMenu";
import { type Row, readAll, readList } from "./reading";
import { WorkloadCard } from "./WorkloadCard";
import { WorkloadPane } from "./WorkloadPane";
import classes from "./Workloads.module.css";

const PHASES = [
  "Pending",
  "Creating",
  "Initializing",
  "Running",
  "Degraded",
  "Stopped",
  "Failed",
  "Completed",
  "Deleting",
  "Deleted",
];

function useFilterFields(): FilterField[] {
  const projects = useQuery(projectsQuery).data;
  return useMemo(() => {
    const words = text.columns;
    return [
      { field: "phase", label: words.status, choices: PHASES, operators: ["==", "!="] },
      { field: "projectName", label: words.project, choices: (projects ?? []).map((each) => each.name) },
      { field: "submittedBy", label: words.user },
      {
        field: "type",
        label: words.type,
        choices: ["Workspace", "Training", "Distributed", "Inference"],
        operators: ["==", "!="],
      },
      { field: "name", label: words.name, operators: ["=@", "!@", "=^", "=$", "=="] },
      { field: "requestedGPU", label: words.requestedGpus, operators: [">=", "<=", "=="] },
      { field: "allocatedGPU", label: words.gpus, operators: [">=", "<=", "=="] },
      { field: "runningPods", label: words.pods, operators: [">=", "<=", "=="] },
      { field: "departmentName", label: words.department },
      { field: "createdAt", label: words.createdAt, operators: [">=", "<="] },
    ];
  }, [projects]);
}

/** The rows, kept current: by the stream, and with each new measurement. */
function useWorkloads(state: ListState) {
  const queries = useQueryClient();
  useEffect(
    () =>
      changeStream().listen((change) => {
        if (change.noun === "samples" && !document.hidden)
          void queries.invalidateQueries({ queryKey: ["workloads", "list"] }, { cancelRefetch: false });
      }),
    [queries],
  );
  const query = useQuery({ ...listOf(state), placeholderData: keepPreviousData });
  const soon = useCallback(
    (change: Partial<ListState>) =>
      void queries.prefetchQuery({ ...listOf(changed(state, change)), staleTime: SOON_MS }),
    [queries, state],
  );
  // Whoever reads a list to its end asks for the next page: it is there before it is asked for, once for each page.
  const { page } = state;
  const hasNext = query.data?.hasMore === true && !query.isPlaceholderData;
  useEffect(() => {
    if (!hasNext) return;
    const timer = setTimeout(() => soon({ page: page + 1 }), REST_MS);
    return () => clearTimeout(timer);
  }, [hasNext, page, soon]);
  return { query, soon };
}

/** What was read ahead counts as new for so long; later it is shown at once all the same, and read again. */
const SOON_MS = 3000;
/** After the rows of a page, before those of the next are asked for. */
const REST_MS = 100;

function listOf(state: ListState) {
  const { columns: _columns, ...asked } = state;
  return queryOptions({ queryKey: ["workloads", "list", asked], queryFn: () => readList(state) });
}

export function WorkloadsPage() {
  const [state, setList] = useListState();
  const { query, soon } = useWorkloads(state);
  const colours = useProjectColour();
  const navigate = useNavigate();
  const filterFields = useFilterFields();
  const [selected, setSelected] = useState<Set<string>>(new Set());
  /** Rows that are no longer shown must not be among those that are deleted. */
  const setState = useCallback(
    (change: Partial<ListState>) => {
      if (!("columns" in change)) setSelected(new Set());
      setList(change);
    },
    [setList],
  );
  const [paneId, setPaneId] = useState<string | null>(null);
  const [menuId, setMenuId] = useState<string | null>(null);
  const [leaving, setLeaving] = useState<ReadonlySet<string>>(new Set());
  const rows = query.data?.rows;
  const expected = useExpectedStarts(rows ?? []);
  const pane = rows?.find((each) => each.id === paneId) ?? null;

  const removeRows = useCallback((ids: string[], name: string) => {
    setLeaving((now) => new Set([...now, ...ids]));
    setSelected(new Set());
    setPaneId(null);
    remove(ids, name, () => setLeaving((now) => new Set([...now].filter((each) => !ids.includes(each)))));
  }, []);

  const menu = useCallback(
    (row: Row) => (
      <RowMenu
        row={row}
        opened={menuId === row.id}
        onChange={(opened) => setMenuId(opened ? row.id : null)}
        onPane={() => setPaneId(row.id)}
        onDelete={() => removeRows([row.id], row.name)}
      />
    ),
    [menuId, removeRows],
  );
  const columns = useMemo<Column<Row>[]>(
    () => [...COLUMNS, { key: "actions", header: "", render: menu, width: 1 }],
    [menu],
  );
  const shown = useMemo(() => withActions(state), [state]);

  return (
    <Page title={text.title} actions={<PhaseTabs state={state} onState={setState} counts={query.data?.counts} />}>
      <div
        className={clsx(classes.compact, query.isPlaceholderData && classes.old)}
        aria-busy={query.isPlaceholderData}
      >
        <ProjectColours value={colours}>
          <ExpectedStarts value={expected}>
            <Grid
              label={text.label}
              rows={rows}
              total={query.data?.total ?? null}
              hasMore={query.data?.hasMore ?? false}
              error={query.error}
              onRetry={() => void query.refetch()}
              columns={columns}
              idOf={(row) => row.id}
              nameOf={(row) => row.name}
              state={shown}
              onState={setState}
              onSoon={soon}
              filterFields={filterFields}
              onOpen={(row) => void navigate({ to: "/workloads/$workload", params: { workload: row.id } })}
              selected={selected}
              onSelect={setSelected}
              bulk={
                <Bulk
                  rows={rows ?? []}
                  selected={selected}
                  onClear={() => setSelected(new Set())}
                  onDelete={removeRows}
                />
              }
              card={(row) => <WorkloadCard row={row} menu={menu(row)} />}
              allRows={() => readAll(state)}
              views="workloads"
              rowClass={(row) => (leaving.has(row.id) ? classes.leaving : undefined)}
              onKey={(key, row) => {
                if (key === "y" || key === " ") setPaneId(row.id);
                else if (key === "l") void navigate({ to: `/workloads/${row.id}`, search: { tab: "log" } } as never);
                else if (key === ".") setMenuId(row.id);
              }}
              empty={
                <Empty
                  title={text.empty}
                  hint={text.emptyHint}
                  action={
                    <Button variant="filled" component={Link} to="/submit">
                      {text.submit}
                    </Button>
                  }
                />
              }
            />
          </ExpectedStarts>
        </ProjectColours>
      </div>
      {state.sort === null && state.filters.length === 0 && (rows?.length ?? 0) > 0 && (
        <p className={classes.order}>{text.order}</p>
      )}
      <WorkloadPane row={pane} onClose={() => setPaneId(null)} onDelete={(row) => removeRows([row.id], row.name)} />
    </Page>
  );
}

/** The menu of each row is there whatever columns are chosen. */
function withActions<State extends { columns: string[] | null }>(state: State): State {
  return state.columns === null || state.columns.includes("actions")
    ? state
    : { ...state, columns: [...state.columns, "actions"] };
}

interface BulkProps {
  rows: Row[];
  selected: ReadonlySet<string>;
  onClear: () => void;
  onDelete: (ids: string[], name: string) => void;
}

function Bulk({ rows, selected, onClear, onDelete }: BulkProps) {
  const isHeld = useWritesHeld();
  const mayChange = useMay("workload.update") && !isHeld;
  const mayRemove = useMay("workload.delete") && !isHeld;
  const ids = [...selected];
  const known = rows.filter((each) => selected.has(each.id));
  return (
    <>
      <Button
        size="xs"
        disabled={!mayChange || (known.length > 0 && !known.some(maySuspend))}
        onClick={() => void suspend(ids).then(onClear)}
      >
        {text.suspend}
      </Button>
      <Button
        size="xs"
        disabled={!mayChange || (known.length > 0 && !known.some(mayResume))}
        onClick={() => void resume(ids).then(onClear)}
      >
        {text.resume}
      </Button>
      <Button size="xs" c="var(--failed)" disabled={!mayRemove} onClick={() => onDelete(ids, known[0]?.name ?? "")}>
        {text.delete}
      </Button>
      <Button size="xs" variant="subtle" onClick={onClear}>
        {text.unselect}
      </Button>
    </>
  );
}
