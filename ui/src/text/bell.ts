/** Words of the notifications in the page. */
import { duration, gpus, listed, quota } from "@/model/format";

const plural = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;

export const text = {
  open: (unread: number) => (unread === 0 ? "Notifications" : `Notifications, ${unread} unread`),
  title: "Notifications",
  nothing: "Nothing new. What happens to your workloads appears here.",
  failed: "Notifications could not be read",
  markRead: "Mark all as read",
  unread: "unread",
  all: "All decisions",
  elsewhere: "E-mail and chat",
  idleFrom: "Tell me of idle GPUs from",
  groups: { attention: "Needs attention", lost: "Taken back", started: "Started" },
  started: (names: readonly string[]) => `${listed(names)} started`,
  startedDetail: (held: number, lent: number) =>
    held === 0
      ? "without GPUs"
      : lent > 0
        ? `${gpus(held)} GPUs, ${gpus(lent)} of them beyond the quota`
        : `${gpus(held)} GPUs`,
  takenBack: (name: string, held: number, winner: string | null, project: string | null) => {
    const to = winner === null ? project : project === null ? winner : `${winner} of ${project}`;
    const what = `${name} gave ${quota(held)} ${held === 1 ? "GPU" : "GPUs"}`;
    return to === null ? `${what} back` : `${what} to ${to}`;
  },
  takenBackDetail: (
    taken: { name: string; allocated: number; quota: number | null },
    gaining: { name: string; wanted: number },
  ) =>
    `${taken.name} held ${quota(taken.allocated)} with a quota of ${quota(taken.quota)}; ${gaining.name} needs ${quota(gaining.wanted)} within its own`,
  preempted: (name: string, winner: string | null) =>
    winner === null ? `${name} was preempted` : `${name} was preempted by ${winner}`,
  moved: (name: string) => `${name} moves, so that other work fits`,
  stopped: (name: string) => `${name} was stopped: it had lost pods that it needs`,
  withdrawn: (name: string) => `${name} lost the place that it was promised`,
  workloadFailed: (name: string) => `${name} failed`,
  nearLimit: (name: string) => `${name} will soon be stopped by a limit`,
  silent: (names: readonly string[]) =>
    names.length === 1 ? `${names[0]} is silent or not ready` : `${listed(names)} are silent or not ready`,
  silentSince: (ms: number) => `nothing heard for ${duration(ms)}`,
  quotas: (pool: string) => `Quotas of ${pool} are above the pool`,
  quotasDetail: (sum: number, capacity: number) =>
    `Projects are assigned ${quota(sum)} GPUs, the pool has ${quota(capacity)}`,
  idle: (count: number) => `${plural(count, "allocated GPU")} ${count === 1 ? "is" : "are"} idle`,
  idleDetail: "at 0 % for more than five minutes",
};
