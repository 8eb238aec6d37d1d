/** The timeline of a workload: what it did, when it waited, and what is expected. Pure. */
import type { Schema } from "@/api/client";
import type { Pod } from "./queries";

export type PieceKind = "waits" | "runs" | "over" | "expected" | "starts";

export interface Piece {
  kind: PieceKind;
  from: number;
  to: number;
  words: string;
}

export interface Mark {
  at: number;
  kind: string;
  words: string;
}

export interface Lane {
  name: string;
  note: string;
  pieces: Piece[];
  marks: Mark[];
}

export interface Expectation {
  /** When it is expected to start, or to end. */
  startAt: number | null;
  endAt: number | null;
}

interface Words {
  life: (number: number) => string;
  waits: string;
  waitsUntil: (at: number) => string;
  endsAt: (at: number) => string;
  thisOne: string;
  pod: (index: number) => string;
}

/** Lanes at most; the rest is counted. */
export const LANES_MAX = 6;

const moment = (iso: string | null | undefined): number | null => (iso ? Date.parse(iso) : null);

/** Pods of the same index are the lives of one place in the workload: a lane each. */
export function lanesOf(
  name: string,
  lives: readonly Pod[],
  decisions: readonly Schema<"Decision">[],
  expected: Expectation,
  now: number,
  words: Words,
): { lanes: Lane[]; rest: number } {
  const byIndex = new Map<number, Pod[]>();
  for (const each of lives) byIndex.set(each.index, [...(byIndex.get(each.index) ?? []), each]);
  const indices = [...byIndex.keys()].sort((a, b) => a - b);
  const lanes = indices.slice(0, LANES_MAX).map((index, number) => {
    const pods = [...byIndex.get(index)!].sort((a, b) => a.createdAt.localeCompare(b.createdAt));
    const pieces = pods.flatMap((pod, life) => piecesOf(pod, life + 1, decisions, now, words));
    const last = pods[pods.length - 1]!;
    pieces.push(...expectedPieces(last, expected, now, words));
    return {
      name: indices.length === 1 ? name : words.pod(index),
      note: number === 0 ? words.thisOne : "",
      pieces,
      marks: number === 0 ? marksOf(decisions) : [],
    };
  });
  return { lanes, rest: Math.max(0, indices.length - LANES_MAX) };
}

/** Over quota if the decision that started it lent it something. */
function startedOver(decisions: readonly Schema<"Decision">[], startedAt: number): boolean {
  let found: Schema<"Decision"> | null = null;
  for (const each of decisions)
    if ((each.kind === "lent" || each.kind === "started") && Date.parse(each.at) <= startedAt + 1000) found = each;
  return found?.kind === "lent";
}

const endOf = (pod: Pod): number | null =>
  pod.phase === "ended" ? (moment(pod.completedAt) ?? Date.parse(pod.since)) : null;

/** When the last of them ended; 0: none has. */
export function lastEnd(lives: readonly Pod[]): number {
  return Math.max(0, ...lives.map((each) => endOf(each) ?? 0));
}

function piecesOf(
  pod: Pod,
  life: number,
  decisions: readonly Schema<"Decision">[],
  now: number,
  words: Words,
): Piece[] {
  const created = Date.parse(pod.createdAt);
  const started = moment(pod.startedAt);
  const ended = endOf(pod);
  const pieces: Piece[] = [];
  const waitedUntil = started ?? ended ?? now;
  // A wait is cut where a decision changed it: a place was promised or withdrawn.
  const cuts = decisions
    .filter((each) => ["promised", "withdrawn", "moved"].includes(each.kind))
    .map((each) => Date.parse(each.at))
    .filter((at) => at > created && at < waitedUntil);
  let from = created;
  for (const to of [...cuts, waitedUntil]) {
    if (to > from) pieces.push({ kind: "waits", from, to, words: words.waits });
    from = Math.max(from, to);
  }
  if (started !== null) {
    const kind = startedOver(decisions, started) ? "over" : "runs";
    pieces.push({ kind, from: started, to: ended ?? now, words: words.life(life) });
  }
  return pieces;
}

function expectedPieces(pod: Pod, expected: Expectation, now: number, words: Words): Piece[] {
  if (pod.phase === "ended") return [];
  if (!pod.startedAt)
    return expected.startAt !== null && expected.startAt > now
      ? [{ kind: "expected", from: now, to: expected.startAt, words: words.waitsUntil(expected.startAt) }]
      : [];
  return expected.endAt !== null && expected.endAt > now
    ? [{ kind: "expected", from: now, to: expected.endAt, words: words.endsAt(expected.endAt) }]
    : [];
}

function marksOf(decisions: readonly Schema<"Decision">[]): Mark[] {
  return decisions
    .filter((each) => each.kind === "taken-back" || each.kind === "preempted" || each.kind === "stopped")
    .map((each) => ({ at: Date.parse(each.at), kind: each.kind, words: each.message }));
}

export interface Range {
  from: number;
  to: number;
}

/** What is shown: all of it, and some room after now. */
export function rangeOf(lanes: readonly Lane[], now: number): Range {
  const all = lanes.flatMap((lane) => lane.pieces);
  const from = Math.min(now - 60_000, ...all.map((each) => each.from));
  const last = Math.max(from + 60_000, ...all.map((each) => each.to));
  const isGoing = all.some((each) => each.to >= now - 2000);
  const to = isGoing ? Math.max(now, last) : last;
  return { from, to: to + (to - from) * (last > now ? 0.02 : 0.08) };
}

const STEPS = [
  10, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000,
];

/** Round moments along the axis, at most `most` of them. */
export function ticks({ from, to }: Range, most: number): number[] {
  const step = (STEPS.find((each) => (to - from) / 1000 / each <= most) ?? STEPS[STEPS.length - 1]!) * 1000;
  const zone = new Date(from).getTimezoneOffset() * 60_000; // round in the reader's zone
  const found: number[] = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) found.push(at);
  return found;
}
