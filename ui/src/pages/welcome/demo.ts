/** The demo: the validation that NetApp published, sections 4.8 to 4.10. Sixteen GPUs and four teams. Pure. */

export const DEMO_PROJECTS: readonly { name: string; quota: number }[] = [
  { name: "team-a", quota: 4 },
  { name: "team-b", quota: 2 },
  { name: "team-c", quota: 2 },
  { name: "team-d", quota: 8 },
];
export const DEMO_GPUS = 16;

export interface DemoJob {
  submit: string;
  gpus: number;
  isInteractive?: boolean;
  isNotebook?: boolean;
  /** The next step waits until it runs. */
  untilRunning: boolean;
}
/** Several at once, as one command does it; then others take their place. */
export interface DemoDeletion {
  delete: readonly string[];
  untilRunning: readonly string[];
}
export type DemoStep = DemoJob | DemoDeletion;

const runs = (submit: string, gpus: number): DemoJob => ({ submit, gpus, untilRunning: true });
const interactive = (submit: string, gpus: number): DemoJob => ({ ...runs(submit, gpus), isInteractive: true });
const queued = (submit: string, gpus: number): DemoJob => ({ submit, gpus, untilRunning: false });

/** The steps of each chapter after the first, which creates the projects. */
export const DEMO_CHAPTERS: readonly (readonly DemoStep[])[] = [
  [
    { ...interactive("a-1-1-jupyter", 1), isNotebook: true },
    runs("a-1-g", 1),
    runs("a-2-gg", 2),
    interactive("b-1-g06", 0.6),
    interactive("b-2-g04", 0.4),
    runs("b-3-g", 1),
    runs("b-4-gg", 2),
    interactive("c-1-g05", 0.5),
    interactive("c-2-g03", 0.3),
    interactive("c-3-g02", 0.2),
    runs("c-4-gg", 2),
    runs("c-5-g", 1),
    runs("d-1-gggg", 4),
  ],
  [runs("d-2-gg", 2), runs("d-3-gg", 2)],
  [queued("a-3-gg", 2), queued("a-4-gg", 2), queued("b-5-gg", 2), queued("c-6-gg", 2)],
  [
    {
      delete: ["d-1-gggg", "d-2-gg", "d-3-gg"],
      untilRunning: ["a-3-gg", "a-4-gg", "b-4-gg", "c-4-gg"],
    },
  ],
];

export const DEMO_STEPS = DEMO_CHAPTERS.reduce((sum, each) => sum + each.length, 1);

/** `a-1-g` is of team-a. */
export function projectOf(job: string): string {
  return `team-${job[0]}`;
}

const TRAINER = "run-ai-demo/quickstart";

/** The path and body that submit a job. */
export function demoRequest(job: DemoJob): { path: string; body: Record<string, unknown> } {
  const kind = job.isInteractive ? "workspaces" : "trainings";
  const notebook = {
    image: "jupyter/base-notebook",
    command: "start-notebook.sh",
    ports: [{ container: 8888, serviceType: "Ingress", toolType: "jupyter-notebook" }],
  };
  return {
    path: `/api/v1/workloads/${kind}`,
    body: {
      name: job.submit,
      projectId: projectOf(job.submit),
      source: "Control-plane",
      spec: { ...(job.isNotebook ? notebook : { image: TRAINER }), compute: { gpu: String(job.gpus) } },
    },
  };
}
