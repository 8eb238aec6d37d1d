/** Templates, environments, compute resources, data sources, credentials, registries, claims and config maps. */
import { Button, Select, Tabs } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { call } from "@/api/client";
import { projectsQuery, useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { withUndo } from "@/components/answers";
import { Grid } from "@/components/Grid";
import { useListState } from "@/components/listState";
import { Page } from "@/components/Page";
import { EMPTY_SCOPE } from "@/components/specForm/ScopeFields";
import { Empty } from "@/components/states";
import { wordIn } from "@/model/address";
import { lastProject } from "@/pages/submit/drafts";
import { text } from "@/text/assets";
import { AssetForm } from "./AssetForm";
import classes from "./Assets.module.css";
import { AssetCard, columnsOf } from "./columns";
import { ASSETS, type AssetKey, KINDS } from "./kinds";
import { Repositories } from "./Repositories";
import type { AssetDraft } from "./request";
import { type AssetRow, pathOfRow, readAssets } from "./rows";
import { shownRows } from "./shownRows";

interface Opened {
  row: AssetRow | null;
  first: AssetDraft;
}

export function AssetsPage() {
  const search = useSearch({ strict: false }) as { kind?: unknown; project?: unknown };
  const navigate = useNavigate();
  const key: AssetKey = KINDS.find((each) => each === search.kind) ?? "templates";
  return (
    <Page title={text.title} lead={text.kinds[key].about}>
      <Tabs value={key} onChange={(next) => void navigate({ to: "/assets", search: { kind: next } as never })}>
        <Tabs.List className={classes.tabs!}>
          {KINDS.map((each) => (
            <Tabs.Tab key={each} value={each}>
              {text.kinds[each].tab}
            </Tabs.Tab>
          ))}
        </Tabs.List>
      </Tabs>
      <AssetList key={key} of={key} project={wordIn(search.project)} />
    </Page>
  );
}

function AssetList({ of: key, project: named }: { of: AssetKey; project: string | undefined }) {
  const kind = ASSETS[key];
  const [project, setProject] = useProjectChoice(key, named);
  const [state, setState] = useListState();
  const query = useQuery({
    queryKey: ["assets", "rows", key, project],
    queryFn: () => readAssets(key, project),
    staleTime: 5000,
  });
  const [opened, open] = useState<Opened | null>(null);
  const [registry, setRegistry] = useState<AssetRow | null>(null);
  const [gone, setGone] = useState<ReadonlySet<string>>(new Set());
  const held = useWritesHeld();
  const may = {
    create: useMay(allowed(key, "create")),
    update: useMay(allowed(key, "update")),
    delete: useMay(allowed(key, "delete")),
  };
  const navigate = useNavigate();
  const rows = useMemo(() => query.data?.filter((each) => !gone.has(each.id)), [query.data, gone]);
  const shown = useMemo(() => shownRows(rows, state), [rows, state]);
  const remove = (row: AssetRow) => {
    const back = () => setGone((before) => new Set([...before].filter((id) => id !== row.id)));
    setGone((before) => new Set([...before, row.id]));
    withUndo(
      text.deleted(row.name),
      async () => {
        await call("DELETE", pathOfRow(key, row));
        await query.refetch();
        back();
      },
      back,
    );
  };
  const edit = (row: AssetRow) => open({ row, first: draftOf(row) });
  const actions = {
    isHeld: held,
    ...(kind.canEdit && may.update ? { onEdit: edit } : {}),
    ...(kind.canCreate && may.create
      ? { onDuplicate: (row: AssetRow) => open({ row: null, first: { ...draftOf(row), name: "" } }) }
      : {}),
    ...(may.delete ? { onDelete: remove } : {}),
    ...(kind.search
      ? { onUse: (row: AssetRow) => void navigate({ to: "/submit", search: kind.search!(row.name) as never }) }
      : {}),
    ...(key === "registries" ? { onBrowse: setRegistry } : {}),
  };
  const isNewShown = kind.canCreate && may.create;
  const newButton = isNewShown ? (
    <Button
      leftSection={<IconPlus size={16} />}
      disabled={held}
      onClick={() => open({ row: null, first: newDraft(key, project) })}
    >
      {text.create(text.kinds[key].one)}
    </Button>
  ) : null;
  return (
    <>
      <Grid
        label={text.kinds[key].tab}
        rows={shown?.page}
        total={shown?.total ?? null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={columnsOf(key, actions, project)}
        idOf={(row) => row.id}
        nameOf={(row) => row.name}
        state={state}
        onState={setState}
        {...(actions.onEdit ? { onOpen: edit } : {})}
        card={(row) => <AssetCard row={row} of={key} actions={actions} />}
        allRows={async () => rows ?? []}
        empty={
          <Empty
            title={text.empty(text.kinds[key].tab)}
            hint={key === "volumes" ? text.noClaims : text.kinds[key].about}
            action={newButton}
          />
        }
        tools={
          <div className={classes.tools}>
            <ProjectChoice of={key} project={project} onProject={setProject} />
            {newButton}
          </div>
        }
      />
      {opened !== null && <AssetForm kind={kind} row={opened.row} first={opened.first} onClose={() => open(null)} />}
      {registry !== null && <Repositories registry={registry} onClose={() => setRegistry(null)} />}
    </>
  );
}

/** What the server asks for; config maps and claims belong to who may submit. */
function allowed(key: AssetKey, verb: "create" | "update" | "delete"): string {
  if (key === "configmaps" || key === "volumes") return "workload.submit";
  if (key === "credentials" || key === "registries") return "credential.write";
  return `${ASSETS[key].permission}.${verb}`;
}

/** Config maps are listed by project; of others the project asks what its policies permit. */
function useProjectChoice(key: AssetKey, named: string | undefined): [string, (project: string) => void] {
  const projects = useQuery(projectsQuery).data;
  const [project, setProject] = useState(named ?? (key === "configmaps" ? lastProject() : ""));
  const first = projects?.[0]?.name;
  useEffect(() => {
    if (key !== "configmaps" || projects === undefined || first === undefined) return;
    if (!projects.some((each) => each.name === project)) setProject(first);
  }, [key, projects, first, project]);
  return [project, setProject];
}

function ProjectChoice({
  of: key,
  project,
  onProject,
}: {
  of: AssetKey;
  project: string;
  onProject: (project: string) => void;
}) {
  const projects = useQuery(projectsQuery).data ?? [];
  if (ASSETS[key].isSecret) return null;
  const isOfProject = key === "configmaps" || key === "volumes";
  const label = isOfProject ? text.project : text.permittedIn;
  return (
    <Select
      data={projects.map((each) => each.name)}
      value={project === "" ? null : project}
      onChange={(next) => onProject(next ?? "")}
      placeholder={label}
      aria-label={label}
      clearable={key !== "configmaps"}
      searchable
      w={200}
    />
  );
}

function newDraft(key: AssetKey, project: string): AssetDraft {
  return {
    name: "",
    description: "",
    scope: { ...EMPTY_SCOPE, ...(key === "configmaps" ? { scope: "project" } : {}), project: project || lastProject() },
    type: ASSETS[key].types[0]!.value,
    spec: {},
    more: "",
    administrative: false,
    required: [],
    locked: [],
    clusterWide: false,
  };
}

function draftOf(row: AssetRow): AssetDraft {
  const { name, description, scope, type, spec, administrative, required, locked, clusterWide } = row;
  return { name, description, scope, type, spec, administrative, required, locked, clusterWide, more: "" };
}
