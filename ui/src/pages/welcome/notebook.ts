/** The first notebook: what is submitted, and how far it has come. Pure. */
import type { Schema } from "@/api/client";

export const SIZES = { half: "0.5", whole: "1", none: "0" } as const;
export type Size = keyof typeof SIZES;

/** As `runai submit --jupyter --service-type ingress` does it. */
export const NOTEBOOK_NAME = "notebook";
export const IMAGE = "jupyter/base-notebook";
const PORT = 8888;
const TOKEN = "JUPYTER_TOKEN";

export interface NotebookRequest {
  name: string;
  useGivenNameAsPrefix: boolean;
  projectId: string;
  source: "Control-plane";
  spec: Record<string, unknown>;
}

/** The gateway signs people in; the token keeps other users of the node's machine out. */
export function notebookRequest(name: string, project: string, size: Size, token: string): NotebookRequest {
  return {
    name,
    useGivenNameAsPrefix: true,
    projectId: project,
    source: "Control-plane",
    spec: {
      image: IMAGE,
      command: "start-notebook.sh",
      compute: { gpu: SIZES[size] },
      environmentVariables: [{ name: TOKEN, value: token }],
      ports: [{ container: PORT, serviceType: "Ingress", toolType: "jupyter-notebook" }],
    },
  };
}

export type State = "done" | "now" | "later";

export interface Progress {
  submitted: State;
  placed: State;
  image: State;
  ready: State;
}

type Shown = Pick<Schema<"Workload">, "phase" | "currentNodes" | "urls">;

export function progressOf(workload: Shown): Progress {
  const isPlaced = (workload.currentNodes?.length ?? 0) > 0;
  const isRunning = workload.phase === "Running";
  const isReady = isRunning && (workload.urls?.length ?? 0) > 0;
  return {
    submitted: "done",
    placed: isPlaced || isRunning ? "done" : "now",
    image: isRunning ? "done" : isPlaced ? "now" : "later",
    ready: isReady ? "done" : isRunning ? "now" : "later",
  };
}

/** Where it is opened, with its token. Null: there is no address, or not one to open in a browser. */
export function addressOf(workload: Pick<Schema<"Workload">, "urls" | "spec">): string | null {
  const [first] = workload.urls ?? [];
  if (first === undefined || !/^https?:\/\//.test(first)) return null;
  const variables = (workload.spec?.environmentVariables ?? []) as { name?: string; value?: string }[];
  const token = Array.isArray(variables) ? variables.find((each) => each.name === TOKEN)?.value : undefined;
  if (!token) return first;
  const url = new URL(first);
  url.searchParams.set("token", token);
  return url.toString();
}

export function newToken(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((each) => each.toString(16).padStart(2, "0")).join("");
}

/** What is in no quota yet: the quota that a first project is offered. */
export function freeQuota(capacity: number, quotas: readonly (number | null | undefined)[]): number {
  if (quotas.some((each) => each == null || each < 0)) return 0;
  const given = (quotas as number[]).reduce((sum, each) => sum + each, 0);
  return Math.max(0, Math.floor(capacity - given));
}
