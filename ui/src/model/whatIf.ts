/** Changes to the live state, as they stand in an address and as the planner reads them, and what they lead to. */
import type { Schema } from "@/api/client";

export interface Changes {
  /** `project.team-a.quota=6` */
  set: string[];
  /** `name=big,project=team-a,gpus=4` */
  addJob: string[];
  /** `name=gpu-9,like=gpu-1` */
  addNode: string[];
  withoutNode: string[];
  withoutJob: string[];
  later: string | null;
}

export const LISTS = ["withoutJob", "withoutNode", "addNode", "addJob", "set"] as const;
export type ListName = (typeof LISTS)[number];
export const NOTHING: Changes = { set: [], addJob: [], addNode: [], withoutNode: [], withoutJob: [], later: null };
/** More is refused by the server. */
const MOST = 100;

export function readChanges(search: Record<string, unknown>): Changes {
  const changes: Changes = { ...NOTHING };
  for (const name of LISTS) changes[name] = texts(search[name]);
  changes.later = typeof search.later === "string" && search.later !== "" ? search.later : null;
  return changes;
}

function texts(raw: unknown): string[] {
  const all = Array.isArray(raw) ? raw : [raw];
  return all.filter((each): each is string => typeof each === "string" && each !== "").slice(0, MOST);
}

/** All names, so that what was taken out goes. One change stands as it is, several as a list. */
export function changesSearch(changes: Changes): Record<keyof Changes, string | string[] | undefined> {
  const written = (list: string[]) => (list.length === 0 ? undefined : list.length === 1 ? list[0] : list);
  return {
    set: written(changes.set),
    addJob: written(changes.addJob),
    addNode: written(changes.addNode),
    withoutNode: written(changes.withoutNode),
    withoutJob: written(changes.withoutJob),
    later: changes.later ?? undefined,
  };
}

export const countOf = (changes: Changes): number =>
  LISTS.reduce((sum, name) => sum + changes[name].length, 0) + (changes.later === null ? 0 : 1);

export function requestOf(changes: Changes, nodePool: string | undefined): Schema<"WhatIfRequest"> {
  return {
    ...(nodePool === undefined ? {} : { nodePool }),
    settings: changes.set,
    addJobs: changes.addJob,
    addNodes: changes.addNode,
    withoutNodes: changes.withoutNode,
    withoutJobs: changes.withoutJob,
    later: changes.later,
  };
}

export interface OneChange {
  list: ListName | "later";
  text: string;
}

/** Every change, in the order in which the planner makes them and answers with a sentence for each. */
export function oneByOne(changes: Changes): OneChange[] {
  const all: OneChange[] = LISTS.flatMap((list) => changes[list].map((text) => ({ list, text })));
  return changes.later === null ? all : [...all, { list: "later", text: changes.later }];
}

export function without(changes: Changes, gone: OneChange): Changes {
  if (gone.list === "later") return { ...changes, later: null };
  const index = changes[gone.list].indexOf(gone.text);
  return { ...changes, [gone.list]: changes[gone.list].filter((_, number) => number !== index) };
}

/** With one more; a value that is set again replaces the one before. */
export function withChange(changes: Changes, added: OneChange): Changes {
  if (added.list === "later") return { ...changes, later: added.text };
  const path = added.text.slice(0, added.text.indexOf("="));
  const same = (each: string) => each === added.text || (added.list === "set" && each.startsWith(`${path}=`));
  return { ...changes, [added.list]: [...changes[added.list].filter((each) => !same(each)), added.text] };
}

export interface Setting {
  noun: string;
  name: string;
  key: string;
  value: string;
}

export function parseSetting(text: string): Setting | null {
  const equals = text.indexOf("=");
  if (equals < 0) return null;
  const parts = text.slice(0, equals).split(".");
  const value = text.slice(equals + 1);
  if (parts.length < 2) return null;
  const [noun, ...rest] = parts as [string, ...string[]];
  const key = rest.pop()!;
  return { noun, name: rest.join("."), key, value };
}

/** The fields of an added job or node. */
export function fieldsOf(text: string): Record<string, string> {
  const pairs = text.split(",").map((each) => {
    const equals = each.indexOf("=");
    return equals < 0 ? [each.trim(), ""] : [each.slice(0, equals).trim(), each.slice(equals + 1).trim()];
  });
  return Object.fromEntries(pairs.filter(([key]) => key !== ""));
}

export type Effect = "starts" | "promised" | "moves" | "taken" | "waits" | "ends" | "other";

export interface Fate {
  id: string;
  workload: string;
  project: string;
  effect: Effect;
  before: string | null;
  after: string | null;
}

const ORDER: Effect[] = ["starts", "promised", "moves", "taken", "waits", "ends", "other"];

/** Who fares differently: those that gain first, then those that lose. */
export function fatesOf(groups: readonly Schema<"GroupOutcomes">[]): Fate[] {
  return groups
    .map((each) => ({
      id: each.group,
      workload: each.workload,
      project: each.project,
      before: each.original ?? null,
      after: each.changed ?? null,
      effect: effectOf(each.original ?? null, each.changed ?? null),
    }))
    .sort((a, b) => ORDER.indexOf(a.effect) - ORDER.indexOf(b.effect) || a.workload.localeCompare(b.workload));
}

function effectOf(before: string | null, after: string | null): Effect {
  if (after === null) return "ends";
  const ran = before !== null && /\b(stays on|is preempted on)\b/.test(before);
  if (after.includes("is preempted on")) return "taken";
  if (after.startsWith("starts on")) return ran ? "moves" : "starts";
  if (after.startsWith("will start on")) return ran ? "moves" : "promised";
  if (after.startsWith("stays on")) return "starts"; // it would have been stopped
  return after.startsWith("waits") ? "waits" : "other";
}
