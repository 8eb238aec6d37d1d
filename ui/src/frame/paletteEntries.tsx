/** What the palette offers for what was typed. */
import { useMantineColorScheme } from "@mantine/core";
import {
  IconBolt,
  IconBox,
  IconChartBar,
  IconFilter,
  IconPalette,
  IconPlus,
  IconServer2,
  IconUser,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, got, type Schema } from "@/api/client";
import { permits, projectsQuery, useMe } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused, withUndo } from "@/components/answers";
import { ProjectDot } from "@/components/ProjectName";
import { StatusIcon } from "@/components/StatusBadge";
import { shellQuote } from "@/model/shell";
import { mayDelete, mayResume, maySuspend, remove, resume, suspend } from "@/model/workloadActions";
import { markNode } from "@/pages/nodes/nodeMarks";
import { cordoned, drained, isDrained } from "@/pages/nodes/nodeState";
import { text } from "@/text/palette";
import { DENSITIES, useDensity } from "./density";
import { menuFor } from "./pages";
import { filtersOf, matches, type NodeVerb, type Understood, understood, type WorkloadVerb } from "./paletteWords";

export interface Entry {
  id: string;
  group: keyof typeof text.groups;
  icon: ReactNode;
  title: string;
  detail?: string;
  /** The same as a command. */
  command?: string;
  run: () => void;
  isDisabled?: boolean;
  /** The detail is a sentence, below the title. */
  isLong?: boolean;
  /** Where it leads, to be offered again. */
  to?: { path: string; search?: Record<string, unknown> };
}

type Workload = Schema<"WorkloadItem">;
type Node = Schema<"NodeAnswer">;
const FOUND = 6;
const ICON = 16;

interface Found {
  workloads: Workload[];
  waiting: Map<string, string>;
  nodes: Node[];
  users: Schema<"User">[];
  isSearching: boolean;
  error: unknown;
}

/** The server's search. A request whose words have changed is aborted. */
function useFound(asked: Understood, permissions: readonly string[]): Found {
  const { words, workloadVerb, nodeVerb } = asked;
  const may = (permission: string) => permissions.includes(permission);
  const query = { search: words, limit: FOUND };
  const workloads = useQuery({
    queryKey: ["workloads", "palette", words],
    queryFn: ({ signal }) => got(api.GET("/api/v1/workloads", { params: { query }, signal })),
    enabled: words !== "" && nodeVerb === undefined,
  });
  const waiting = useQuery({
    queryKey: ["waiting", "palette", words],
    queryFn: ({ signal }) => got(api.GET("/api/v1/workloads/waiting", { params: { query }, signal })),
    enabled: words !== "" && workloadVerb === "why",
  });
  const nodes = useQuery({
    queryKey: ["nodes", "palette", words],
    queryFn: ({ signal }) => got(api.GET("/api/v1/nodes", { params: { query }, signal })),
    enabled: words !== "" && workloadVerb === undefined && may("node.read"),
  });
  const users = useQuery({
    queryKey: ["users", "palette", words],
    queryFn: ({ signal }) => got(api.GET("/api/v1/users", { params: { query }, signal })),
    enabled: words !== "" && workloadVerb === undefined && nodeVerb === undefined && may("user.read"),
  });
  return {
    workloads: (workloads.data?.workloads ?? []) as Workload[],
    waiting: new Map((waiting.data?.workloads ?? []).map((each) => [each.id, each.message])),
    nodes: (nodes.data?.nodes ?? []) as Node[],
    users: (users.data ?? []) as Schema<"User">[],
    isSearching: workloads.isFetching || nodes.isFetching || users.isFetching,
    error: workloads.error ?? nodes.error ?? users.error,
  };
}

type Go = (path: string, search?: Record<string, unknown>) => void;

export function useEntries(typed: string): { entries: Entry[]; isSearching: boolean; error: unknown } {
  const me = useMe();
  const permissions = me?.permissions ?? [];
  const projects = (useQuery(projectsQuery).data ?? []).map((each) => each.name);
  const asked = understood(typed, projects, me?.username);
  const found = useFound(asked, permissions);
  const navigate = useNavigate();
  const isHeld = useWritesHeld();
  const settings = useSettings();
  const go: Go = (path, search) => void navigate({ to: path as never, search: (search ?? {}) as never });
  if (asked.workloadVerb !== undefined || asked.nodeVerb !== undefined) {
    const acts =
      asked.workloadVerb !== undefined
        ? found.workloads.flatMap((each) =>
            workloadAct(asked.workloadVerb!, each, go, permissions, found.waiting, isHeld),
          )
        : found.nodes.flatMap((each) => nodeAct(asked.nodeVerb!, each, permissions, isHeld));
    return { entries: acts, isSearching: found.isSearching, error: found.error };
  }
  const { words } = asked;
  const named = projects.filter((each) => words !== "" && matches(each, words)).slice(0, FOUND);
  const inProjects = named.map((each) => projectEntry(each, go));
  const isProject = named.includes(words);
  const entries: Entry[] = [
    ...(asked.list === undefined ? [] : [listEntry(asked.list, go)]),
    ...(isProject ? inProjects : []),
    ...found.workloads.map((each) => workloadEntry(each, go)),
    ...(isProject ? [] : inProjects),
    ...found.nodes.map((each) => nodeEntry(each, go)),
    ...found.users.map((each) => userEntry(each.username, go)),
    ...pageEntries(permissions, go).filter((each) => matches(each.title, words)),
    ...settings.filter((each) => words !== "" && matches(each.title, words)),
  ];
  return { entries, isSearching: found.isSearching, error: found.error };
}

const leads = (go: Go, path: string, search?: Record<string, unknown>): Pick<Entry, "run" | "to"> => ({
  run: () => go(path, search),
  to: search === undefined ? { path } : { path, search },
});

function listEntry(list: NonNullable<Understood["list"]>, go: Go): Entry {
  const search = { f: filtersOf(list) };
  return {
    id: `list:${search.f.join()}`,
    group: "lists",
    icon: <IconFilter size={ICON} />,
    title: text.list(list),
    command: listCommand(list),
    ...leads(go, "/workloads", search),
  };
}

function listCommand({ phase, project, user }: NonNullable<Understood["list"]>): string {
  const words = ["runai list jobs", project === undefined ? "-A" : `-p ${shellQuote(project)}`];
  if (phase !== undefined) words.push(`--status ${phase}`);
  if (user !== undefined) words.push(`-u ${shellQuote(user)}`);
  return words.join(" ");
}

const inProject = (each: Workload): string => `${shellQuote(each.name)} -p ${shellQuote(each.projectName)}`;

function workloadEntry(each: Workload, go: Go): Entry {
  return {
    id: `workload:${each.id}`,
    group: "workloads",
    icon: <StatusIcon phase={each.phase} />,
    title: each.name,
    detail: `${each.projectName} · ${each.phase}`,
    command: `runai describe job ${inProject(each)}`,
    ...leads(go, `/workloads/${each.id}`),
  };
}

function projectEntry(name: string, go: Go): Entry {
  return {
    id: `project:${name}`,
    group: "projects",
    icon: <ProjectDot project={name} />,
    title: name,
    command: `runai describe project ${shellQuote(name)}`,
    ...leads(go, `/projects/${encodeURIComponent(name)}`),
  };
}

function nodeEntry(each: Node, go: Go): Entry {
  return {
    id: `node:${each.clusterUuid}/${each.name}`,
    group: "nodes",
    icon: <IconServer2 size={ICON} />,
    title: each.name,
    detail: text.nodeDetail(each.gpuInfo.gpuCount, each.status),
    command: `runai describe node ${shellQuote(each.name)}`,
    ...leads(go, `/nodes/${encodeURIComponent(each.name)}`, { cluster: each.clusterUuid }),
  };
}

function userEntry(name: string, go: Go): Entry {
  return {
    id: `user:${name}`,
    group: "users",
    icon: <IconUser size={ICON} />,
    title: text.ofUser(name),
    ...leads(go, "/workloads", { f: [`submittedBy==${name}`] }),
  };
}

function pageEntries(permissions: readonly string[], go: Go): Entry[] {
  const pages = menuFor(permissions).map(
    (each): Entry => ({
      id: `page:${each.path}`,
      group: "pages",
      icon: <each.icon size={ICON} stroke={1.6} />,
      title: each.label,
      ...leads(go, each.path),
    }),
  );
  const submit: Entry = {
    id: "page:/submit",
    group: "pages",
    icon: <IconPlus size={ICON} />,
    title: text.submit,
    ...leads(go, "/submit"),
  };
  return [submit, ...pages];
}

function useSettings(): Entry[] {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const [density, setDensity] = useDensity();
  const icon = <IconPalette size={ICON} />;
  return [
    ...(["light", "dark", "auto"] as const).map(
      (each): Entry => ({
        id: `theme:${each}`,
        group: "settings",
        icon,
        title: text.theme[each],
        ...(each === colorScheme ? { detail: text.current } : {}),
        run: () => setColorScheme(each),
      }),
    ),
    ...DENSITIES.map(
      (each): Entry => ({
        id: `density:${each}`,
        group: "settings",
        icon,
        title: text.density[each],
        ...(each === density ? { detail: text.current } : {}),
        run: () => setDensity(each),
      }),
    ),
  ];
}

const MAY: Partial<Record<WorkloadVerb, [permission: string, fits: (each: Workload) => boolean]>> = {
  suspend: ["workload.update", maySuspend],
  resume: ["workload.update", mayResume],
  delete: ["workload.delete", mayDelete],
};

/** Nothing if the caller may not, or if it makes no sense in the workload's phase. */
function workloadAct(
  verb: WorkloadVerb,
  each: Workload,
  go: Go,
  permissions: readonly string[],
  waiting: ReadonlyMap<string, string>,
  isHeld: boolean,
): Entry[] {
  const needed = MAY[verb];
  if (needed !== undefined && (!permits(permissions, needed[0]) || !needed[1](each))) return [];
  const commands: Record<WorkloadVerb, string> = {
    suspend: `runai suspend ${inProject(each)}`,
    resume: `runai resume ${inProject(each)}`,
    delete: `runai delete ${inProject(each)}`,
    why: `runai why ${inProject(each)}`,
    log: `runai logs ${inProject(each)}`,
    copy: `runai describe job ${inProject(each)}`,
  };
  const runs: Record<WorkloadVerb, () => void> = {
    suspend: () => void suspend([each.id]),
    resume: () => void resume([each.id]),
    delete: () => remove([each.id], each.name),
    why: () => go(`/workloads/${each.id}`),
    log: () => go(`/workloads/${each.id}`, { tab: "log" }),
    copy: () => copyCommand(commands.copy),
  };
  const why = verb === "why" ? (waiting.get(each.id) ?? each.phaseMessage) : "";
  return [
    {
      id: `${verb}:${each.id}`,
      group: "actions",
      icon: verb === "why" ? <StatusIcon phase={each.phase} /> : <IconBolt size={ICON} />,
      title: text.verbs[verb](each.name),
      detail: why || `${each.projectName} · ${each.phase}`,
      isLong: why !== "",
      command: commands[verb],
      run: runs[verb],
      isDisabled: isHeld && needed !== undefined,
    },
  ];
}

function nodeAct(verb: NodeVerb, node: Node, permissions: readonly string[], isHeld: boolean): Entry[] {
  const fits = { drain: !isDrained(node), undrain: isDrained(node), cordon: !node.cordoned, uncordon: node.cordoned }[
    verb
  ];
  if (!permissions.includes("node.mark") || !fits) return [];
  const run = () => mark(verb, node).then(() => done(text.marked[verb](node.name)));
  return [
    {
      id: `${verb}:${node.clusterUuid}/${node.name}`,
      group: "actions",
      icon: <IconBolt size={ICON} />,
      title: text.verbs[verb](node.name),
      detail: text.nodeDetail(node.gpuInfo.gpuCount, node.status),
      command: `runai-adm node ${verb} ${shellQuote(node.name)}`,
      run: () => {
        if (verb === "drain") withUndo(text.drainSoon(node.name, node.pods), run);
        else run().catch(refused);
      },
      isDisabled: isHeld,
    },
  ];
}

function mark(verb: NodeVerb, node: Node): Promise<void> {
  const isOn = verb === "drain" || verb === "cordon";
  const change = verb === "drain" || verb === "undrain" ? drained : cordoned;
  return markNode(node.name, node.clusterUuid, (before) => change(before, isOn));
}

export function copyCommand(command: string): void {
  navigator.clipboard.writeText(command).then(() => done(text.copied(command)), refused);
}

/** An entry that was chosen before, by the kind in its id. */
export function recentIcon(id: string): ReactNode {
  const kind = id.slice(0, id.indexOf(":"));
  if (kind === "project") return <ProjectDot project={id.slice(8)} />;
  const Icon = { workload: IconBox, node: IconServer2, user: IconUser, list: IconFilter }[kind] ?? IconChartBar;
  return <Icon size={ICON} />;
}
