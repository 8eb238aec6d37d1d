/** Words of the page of decisions, and of the feed on the overview. The sentences come from the server. */
import { counted, duration } from "@/model/format";

const kinds: Record<string, string> = {
  started: "Started",
  lent: "Lent",
  promised: "Promised",
  "taken-back": "Taken back",
  preempted: "Preempted",
  moved: "Moved",
  stopped: "Stopped",
  withdrawn: "Withdrawn",
};

export const text = {
  title: "Decisions",
  lead: "Every start, loan and take-back of the scheduler, with its reason and the figures it was based on.",
  kinds,
  kindHints: {
    started: "it starts, within its project's quota",
    lent: "it starts with GPUs beyond its project's quota",
    promised: "it has a place, and starts when the pods there have stopped",
    "taken-back": "it loses pods to a project that is owed them",
    preempted: "it loses pods to work of its own project with a higher priority",
    moved: "its pods move, so that other work fits",
    stopped: "its gang had lost pods it needs",
    withdrawn: "the place it had is given up",
  } as Record<string, string>,
  /** Several of one kind and project in one cycle. */
  together: {
    lent: (project: string, count: number, lent: number) =>
      `${counted(lent, "GPU")} beyond its quota went to ${project}, for ${counted(count, "workload")}:`,
    started: (project: string, count: number, held: number) =>
      `${counted(count, "workload")} of ${project} ${count === 1 ? "starts" : "start"} with ${counted(held, "GPU")}:`,
    promised: (project: string, count: number, held: number) =>
      `${counted(held, "GPU")} ${held === 1 ? "is" : "are"} promised to ${counted(count, "workload")} of ${project}:`,
  },
  holds: (project: string, allocated: string, quotaOf: string) => `${project} holds ${allocated} (quota ${quotaOf}).`,
  columns: {
    at: "Time",
    kind: "Kind",
    workload: "Workload",
    project: "Project",
    sentence: "What was decided, and why",
    gpus: "GPUs",
    lent: "Lent GPUs",
    figures: "Figures",
    user: "User",
    nodes: "Nodes",
    winner: "For",
  },
  period: "Period",
  periods: {
    hour: "Last hour",
    day: "Last 24 hours",
    week: "Last 7 days",
    month: "Last 30 days",
    all: "All",
  } as Record<string, string>,
  chartTitle: "Over time",
  chartNoteOf: (seconds: number) => `decisions in every ${duration(seconds * 1000)} · click a bar to list them`,
  time: "Time",
  chosenTime: "Chosen time",
  empty: "Nothing was decided yet",
  emptyHint: "Decisions appear here as soon as the first workload is scheduled.",
  submit: "Submit a workload",
  figures: {
    before: "before",
    after: "after",
    hidden: "another project",
    rest: (quotaOf: string, fair: string) => `of quota ${quotaOf}, fair share ${fair}`,
    title: (when: string) => `GPUs held ${when} this decision`,
  },
  rows: "Decisions",
};
