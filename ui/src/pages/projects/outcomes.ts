/** What a planned change means for each workload, from the plan's own words. */
import type { Schema } from "@/api/client";

export type Effect = "starts" | "promised" | "moves" | "taken" | "waits" | "ends" | "other";

export interface Consequence {
  workload: string;
  workloadId: string;
  project: string;
  effect: Effect;
  /** "on dgx1-2", where it starts. */
  where: string;
  /** The plan's own sentence. */
  sentence: string;
}

const RUNS = /^(starts on|stays on|will start on)\b/;

/** A group with another outcome than before. `original` absent: it is new; `changed` absent: it is gone. */
export function consequenceOf(group: Schema<"GroupOutcomes">): Consequence {
  const { original = null, changed = null } = group;
  const common = {
    workload: group.workload,
    workloadId: group.group,
    project: group.project,
    sentence: changed ?? "",
    where: /\b(on [^;]+)/.exec(changed ?? "")?.[1] ?? "",
  };
  const ran = original !== null && /\b(stays on|is preempted on)\b/.test(original);
  const effect = (): Effect => {
    if (changed === null) return "ends";
    if (changed.startsWith("starts on")) return ran ? "moves" : "starts";
    if (changed.startsWith("will start on")) return ran ? "moves" : "promised";
    if (changed.includes("is preempted on")) return "taken";
    if (changed.startsWith("waits") && ran) return "waits";
    return RUNS.test(changed) ? "starts" : "other";
  };
  return { ...common, effect: effect() };
}

const ORDER: Effect[] = ["starts", "promised", "moves", "taken", "waits", "ends", "other"];

/** Those that gain first, then those that lose. */
export function consequencesOf(answer: Schema<"WhatIfAnswer">): Consequence[] {
  return answer.groups
    .map(consequenceOf)
    .sort((a, b) => ORDER.indexOf(a.effect) - ORDER.indexOf(b.effect) || a.workload.localeCompare(b.workload));
}
