/** Figures of a wait in words. Pure. */
import type { Schema } from "@/api/client";
import { text } from "@/text/why";
import { quota } from "./format";

type Check = Schema<"WaitCheck">;
type Change = Schema<"WaitChange">;

interface TurnDetails {
  figures?: { queue?: string; heldMilli?: number; fairShareMilli?: number };
  askedMilli?: number;
  freeMilli?: number;
  queue?: string;
}

/** The cause as a headline, with names where the server gives them. */
export function headline(cause: Schema<"WaitCause"> | null | undefined, reason: string): string {
  const details = (cause?.details ?? {}) as TurnDetails;
  const plain = text.causes[cause?.cause ?? ""] ?? text.reasons[reason] ?? text.waits;
  if (cause?.cause === "over_limit" && details.queue) return text.headlines.overLimit(details.queue);
  const { queue, heldMilli, fairShareMilli } = details.figures ?? {};
  if (cause?.cause !== "not_its_turn" || !queue || heldMilli === undefined || fairShareMilli === undefined)
    return plain;
  const isFull = details.freeMilli === 0;
  if (heldMilli >= fairShareMilli) return text.headlines.atShare(queue, isFull);
  return heldMilli + (details.askedMilli ?? 0) > fairShareMilli ? text.headlines.beyondShare(queue, isFull) : plain;
}

/** What a check compared, in a few words; empty: nothing to say. */
export function checkFigures(check: Check): string {
  if (check.state === "not-reached") return text.states["not-reached"]!;
  const { asked, free, held, limit, quota: owed, fairShare, capacity, nodes, needed, exist } = check.figures ?? {};
  switch (check.check) {
    case "pods":
      return exist === undefined || needed === undefined ? "" : text.figures.pods(exist, needed);
    case "limits":
      if (limit === undefined) return check.state === "failed" ? text.figures.beyondQuota : text.figures.noLimit;
      return text.figures.limit(quota((held ?? 0) + (asked ?? 0)), quota(limit));
    case "nodes":
      return nodes === undefined ? "" : text.figures.nodes(nodes);
    case "capacity":
      return asked === undefined || capacity === undefined ? "" : text.figures.capacity(quota(asked), quota(capacity));
    case "room":
      return asked === undefined || free === undefined ? "" : text.figures.free(quota(free), quota(asked));
    case "reclaim":
      if (asked === undefined || held === undefined || fairShare === undefined) return "";
      return text.figures.share(quota(held + asked), quota(fairShare), quota(owed ?? null));
    default:
      return "";
  }
}

/** Where a change can be made or tried: a search of the page that does it. Null: nowhere. */
export function changeTarget(
  change: Change,
  workloadId: string,
): { to: string; search: Record<string, string> } | null {
  switch (change.kind) {
    case "raise-quota":
    case "raise-limit": {
      if (change.after == null) return null;
      const unit = / department /.test(change.message) ? "department" : "project";
      const field = change.kind === "raise-quota" ? "quota" : "limit";
      return { to: "/what-if", search: { set: `${unit}.${change.subject}.${field}=${change.after}` } };
    }
    case "fewer-gpus":
      return change.after == null ? null : { to: "/submit", search: { clone: workloadId, gpu: String(change.after) } };
    case "fewer-pods":
    case "preemptible":
    case "other-pool":
      return { to: "/submit", search: { clone: workloadId } }; // where the reader changes it
    case "return-nodes":
      return { to: `/nodes/${change.subject}`, search: {} };
    default:
      return null;
  }
}

/** The message without what stands beside it: the effect. */
export function changeWords(change: Change): string {
  const words = change.message.replace(/: no gain$/, "");
  return words === "" ? "" : words[0]!.toUpperCase() + words.slice(1);
}

/** The interval of an estimate, in words; `at` writes a moment. */
export function estimateRange(estimate: Schema<"StartEstimate">, at: (iso: string) => string): string {
  const { earliestAt, latestAt } = estimate;
  if (earliestAt && latestAt) return text.range(at(earliestAt), at(latestAt));
  if (latestAt) return text.notAfter(at(latestAt));
  if (earliestAt) return text.range(at(earliestAt), "…");
  return text.notAfter(at(estimate.expectedAt));
}
