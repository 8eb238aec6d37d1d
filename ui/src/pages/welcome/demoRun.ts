/** Plays the demo. It goes on while the reader looks at other pages. */
import { useSyncExternalStore } from "react";
import { api, call, got, type Schema } from "@/api/client";
import { changeStream } from "@/api/stream";
import { text } from "@/text/welcome";
import { DEMO_CHAPTERS, DEMO_PROJECTS, type DemoStep, demoRequest } from "./demo";

export type DemoState = "idle" | "running" | "over" | "stopped" | "failed" | "cleaning";

export interface Demo {
  state: DemoState;
  chapter: number;
  steps: number;
  error: unknown;
}

/** Long enough to read what was said. */
const READING_MS = 9000;
const BETWEEN_MS = 700;
const PATIENCE_MS = 90_000;

let demo: Demo = { state: "idle", chapter: 0, steps: 0, error: null };
let turn = 0;
const ids = new Map<string, string>();
const watchers = new Set<() => void>();

function become(change: Partial<Demo>): void {
  demo = { ...demo, ...change };
  for (const each of watchers) each();
}

export function useDemo(): Demo {
  return useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => demo,
  );
}

class Stopped extends Error {}

function check(own: number): void {
  if (own !== turn) throw new Stopped();
}

async function pause(milliseconds: number, own: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
  check(own);
}

/** Wait until something holds: looked at now, and whenever the stream says that a workload changed. */
async function until(holds: () => Promise<boolean>, own: number): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  let hasChanged = true;
  const forget = changeStream().listen((change) => {
    if (change.noun === "workload") hasChanged = true;
  });
  try {
    while (Date.now() < deadline) {
      if (hasChanged) {
        hasChanged = false;
        if (await holds()) return;
      }
      await pause(150, own);
    }
    throw new Error(text.demo.tooSlow);
  } finally {
    forget();
  }
}

async function isRunning(id: string): Promise<boolean> {
  const path = { workload_id: id };
  const workload = await got(api.GET("/api/v1/workloads/{workload_id}", { params: { path } }));
  return workload.phase === "Running";
}

async function play(step: DemoStep, own: number): Promise<void> {
  if ("delete" in step) {
    await Promise.all(step.delete.map((each) => call("DELETE", `/api/v1/workloads/${ids.get(each)}`)));
    for (const each of step.untilRunning) await until(() => isRunning(ids.get(each)!), own);
    return;
  }
  const { path, body } = demoRequest(step);
  const made = await call<Schema<"Workload">>("POST", path, body);
  ids.set(step.submit, made.id);
  if (step.untilRunning) await until(() => isRunning(made.id), own);
}

async function createProjects(cluster: string | undefined): Promise<void> {
  for (const { name, quota } of DEMO_PROJECTS)
    await call("POST", "/api/v1/org-unit/projects", {
      name,
      description: text.demo.projectNote,
      ...(cluster === undefined ? {} : { clusterId: cluster }),
      resources: [{ gpu: { deserved: quota } }],
    });
}

/** In a cluster, where there are several. */
export async function startDemo(cluster?: string): Promise<void> {
  turn += 1;
  const own = turn;
  ids.clear();
  become({ state: "running", chapter: 0, steps: 0, error: null });
  try {
    await createProjects(cluster);
    become({ steps: 1 });
    await pause(READING_MS, own);
    for (const [number, chapter] of DEMO_CHAPTERS.entries()) {
      become({ chapter: number + 1 });
      await pause(BETWEEN_MS * 3, own);
      for (const step of chapter) {
        await play(step, own);
        become({ steps: demo.steps + 1 });
        await pause(BETWEEN_MS, own);
      }
      if (number < DEMO_CHAPTERS.length - 1) await pause(READING_MS, own);
    }
    become({ state: "over" });
  } catch (error) {
    if (!(error instanceof Stopped)) become({ state: "failed", error });
  }
}

export function stopDemo(): void {
  turn += 1;
  become({ state: "stopped" });
}

/** Whether a project was made by the demo: nothing else is ever deleted. */
export function isOfDemo(project: Pick<Schema<"Project">, "name" | "description">): boolean {
  return project.description === text.demo.projectNote && DEMO_PROJECTS.some((each) => each.name === project.name);
}

async function workloadsOf(project: string): Promise<string[]> {
  const page = await got(
    api.GET("/api/v1/workloads", { params: { query: { filterBy: `projectId==${project}`, limit: 500 } } }),
  );
  return page.workloads.map((each) => each.id);
}

/** Delete the jobs of the demo, then its projects. */
export async function cleanUpDemo(projects: readonly string[]): Promise<void> {
  turn += 1;
  const own = turn;
  become({ state: "cleaning", error: null });
  try {
    for (const project of projects)
      for (const id of await workloadsOf(project)) await call("DELETE", `/api/v1/workloads/${id}`).catch(() => null);
    for (const project of projects) await until(async () => (await workloadsOf(project)).length === 0, own);
    for (const project of projects) await call("DELETE", `/api/v1/org-unit/projects/${project}`);
    become({ state: "idle", chapter: 0, steps: 0 });
  } catch (error) {
    become({ state: "failed", error });
  }
}
