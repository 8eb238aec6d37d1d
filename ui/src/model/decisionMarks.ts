/** Decisions as marks on a time axis: those of one moment are one mark. */
import type { Schema } from "@/api/client";

export interface Mark {
  at: number;
  decisions: Schema<"Decision">[];
}

/** The kinds that change who holds what against the will of somebody, or beyond a quota; starts are steps anyway. */
const SHOWN: readonly string[] = ["lent", "taken-back", "preempted", "stopped"];

/** At most `most` marks; decisions closer together than `apart` ms are one. */
export function marksOf(decisions: readonly Schema<"Decision">[], apart: number, most = 40): Mark[] {
  const marks: Mark[] = [];
  const inOrder = decisions
    .filter((each) => SHOWN.includes(each.kind))
    .sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  for (const each of inOrder) {
    const at = Date.parse(each.at);
    const last = marks.at(-1);
    if (last !== undefined && at - last.at < apart) last.decisions.push(each);
    else marks.push({ at, decisions: [each] });
  }
  return marks.length <= most ? marks : marksOf(decisions, apart * 2, most);
}

/** What a mark says first: somebody lost something. */
export function headOf(mark: Mark): Schema<"Decision"> {
  return mark.decisions.find((each) => each.kind !== "lent") ?? mark.decisions[0]!;
}
