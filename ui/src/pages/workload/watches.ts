/** Workloads that the reader wants to hear about, as long as this browser tab is open. */
import { type Change, changeStream } from "@/api/stream";
import { done } from "@/components/answers";
import { text } from "@/text/workload";

const KEY = "fairpool.watched";

type Watched = Record<string, string>;

function read(): Watched {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "{}") as Watched;
  } catch {
    return {};
  }
}

function write(watched: Watched): void {
  sessionStorage.setItem(KEY, JSON.stringify(watched));
}

let stop: (() => void) | null = null;

/** Listen again after the page was loaded anew. */
export function rearmWatches(): void {
  if (stop !== null || Object.keys(read()).length === 0) return;
  stop = changeStream().listen(heard);
}

function heard(change: Change): void {
  if (change.noun !== "workload") return;
  const watched = read();
  const name = watched[change.id];
  const phase = (change.object as { phase?: string } | undefined)?.phase;
  if (
    name === undefined ||
    phase === undefined ||
    phase === "Pending" ||
    phase === "Creating" ||
    phase === "Initializing"
  )
    return;
  unwatch(change.id);
  const words = phase === "Running" ? text.notice.started(name) : text.notice.changed(name, phase);
  done(words);
  if (typeof Notification !== "undefined" && Notification.permission === "granted") new Notification(words);
}

export function isWatched(id: string): boolean {
  return id in read();
}

export function watch(id: string, name: string): void {
  write({ ...read(), [id]: name });
  rearmWatches();
  if (typeof Notification !== "undefined" && Notification.permission === "default")
    void Notification.requestPermission();
}

export function unwatch(id: string): void {
  const { [id]: _gone, ...rest } = read();
  write(rest);
}
