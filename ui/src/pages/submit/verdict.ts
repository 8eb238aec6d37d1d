/** What the server says about a draft: a dry run after each pause in typing. */
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useRef } from "react";
import { ApiError, api, got, type Problem, type Schema } from "@/api/client";
import { type Fields, isEmpty, valueAt } from "@/model/paths";
import {
  type Alternative,
  alternativesTo,
  type Draft,
  pathOf,
  policyKindOf,
  type SubmitBody,
  type SubmitPath,
} from "@/model/submission";
import { effectivePolicyQuery, templatesQuery } from "./queries";

export type DryRunAnswer = Schema<"Workload">;
export type Forecast = Schema<"StartForecast">;

/** Long enough that nobody types into a request, short enough that the verdict is there within 300 ms. */
export const PAUSE_MS = 150;

/** Refusals of what no node or quota of the cluster could ever run: those that `waitAnyway` overrides. */
const NEVER = ["node.", "pool.", "quota.", "project.limit", "topology.none"];

export type Standing =
  | "blank"
  | "checking"
  | "starts"
  | "preempts"
  | "waits"
  | "unknown"
  | "suspended"
  | "never"
  | "refused"
  | "failed";

export interface Verdict {
  standing: Standing;
  answer: DryRunAnswer | null;
  forecast: Forecast | null;
  problems: Problem[];
  error: unknown;
  /** What is shown is of an earlier draft; the next answer is on its way. */
  isChecking: boolean;
  /** The request that was checked. */
  checked: string;
}

/** A typed call for all kinds: their bodies differ in `spec` only, which the server checks. */
export function postWorkload(
  path: SubmitPath,
  body: SubmitBody,
  given: { dryRun: boolean; signal?: AbortSignal; key?: string },
): Promise<DryRunAnswer> {
  const options = {
    params: { query: { dryRun: given.dryRun } },
    body: body as never,
    ...(given.signal === undefined ? {} : { signal: given.signal }),
    ...(given.key === undefined ? {} : { headers: { "Idempotency-Key": given.key } }),
  };
  return got(api.POST(path as "/api/v1/workloads/trainings", options)) as Promise<DryRunAnswer>;
}

/** Whether anything says yet what is to run. Before that the server could only refuse the draft. */
function isBlank(spec: Fields): boolean {
  return isEmpty(spec.image) && isEmpty(spec.template) && isEmpty(valueAt(spec, "assets.environment"));
}

export const DRY_RUNS = ["planned", "dry run"];

/** While it is being sent nothing is asked: the name would be taken by the draft itself. */
export function useVerdict(draft: Draft, body: SubmitBody, isSending: boolean): Verdict {
  const templates = useQuery(templatesQuery).data;
  const policy = useQuery(effectivePolicyQuery(draft.project, policyKindOf(draft.kind))).data;
  const givesImages = policy?.defaultSources.image !== undefined;
  const hasRules = givesImages || (templates ?? []).some((each) => each.administrative);
  const isAsked = body.projectId !== "" && (hasRules || !isBlank(body.spec));
  const request = useMemo(() => JSON.stringify([pathOf(draft.kind), body]), [draft.kind, body]);
  const [asked] = useDebouncedValue(request, PAUSE_MS);
  const query = useQuery({
    queryKey: [...DRY_RUNS, asked], // read again when workloads change: the verdict stays true
    queryFn: ({ signal }) => {
      const [path, given] = JSON.parse(asked) as [SubmitPath, SubmitBody];
      return postWorkload(path, given, { dryRun: true, signal });
    },
    enabled: isAsked && !isSending,
    gcTime: 10_000,
  });
  const settled = useRef<Settled | null>(null);
  const before = settled.current;
  if (query.data !== undefined || query.isError) {
    const answer = query.data ?? null;
    if (before?.checked !== asked || before.answer !== answer || before.error !== query.error)
      settled.current = { answer, error: query.error, checked: asked };
  }
  const now = settled.current;
  const isChecking = isSending || request !== now?.checked;
  return useMemo(() => (isAsked ? verdictOf(now, isChecking) : BLANK), [now, isChecking, isAsked]);
}

/** A refusal that ends by itself is not shown: the page tries the next name when one that it suggested is taken. */
export function withoutTakenName(verdict: Verdict, isNameSuggested: boolean): Verdict {
  const { problems } = verdict;
  const isPassing = isNameSuggested && problems.length > 0 && problems.every(isTakenName);
  return isPassing ? { ...verdict, standing: "checking", problems: [], isChecking: true } : verdict;
}

export function isTakenName({ field, code }: Problem): boolean {
  return field === "name" && /taken|exists/.test(code);
}

const BLANK: Verdict = {
  standing: "blank",
  answer: null,
  forecast: null,
  problems: [],
  error: null,
  isChecking: false,
  checked: "",
};

interface Settled {
  answer: DryRunAnswer | null;
  error: unknown;
  checked: string;
}

function verdictOf(settled: Settled | null, isChecking: boolean): Verdict {
  const none = { answer: null, forecast: null, problems: [], error: null, isChecking, checked: settled?.checked ?? "" };
  if (settled === null) return { ...none, standing: "checking" };
  const { answer, error } = settled;
  if (answer !== null) {
    const forecast = answer.forecast ?? null;
    const standing = forecast === null ? "suspended" : STANDING[forecast.outcome];
    return { ...none, answer, forecast, standing };
  }
  if (!(error instanceof ApiError) || error.problems.length === 0) return { ...none, error, standing: "failed" };
  const problems = error.problems;
  const isNever = problems.every(
    (each) => (each.fix ?? "").includes("waitAnyway") || NEVER.some((code) => each.code.startsWith(code)),
  );
  return { ...none, error, problems, standing: isNever ? "never" : "refused" };
}

const STANDING: Record<Forecast["outcome"], Standing> = {
  starts: "starts",
  "starts-after-preemption": "preempts",
  waits: "waits",
  unknown: "unknown",
};

export interface Offer extends Alternative {
  outcome: "starts" | "preempts";
}

/** Other requests that would start now, tried with further dry runs; null: still trying. */
export function useOffers(draft: Draft, spec: Fields, verdict: Verdict, pools: readonly string[]): Offer[] | null {
  const isAsked = !verdict.isChecking && (verdict.standing === "waits" || verdict.standing === "never");
  const query = useQuery({
    queryKey: [...DRY_RUNS, "alternatives", verdict.checked],
    queryFn: async ({ signal }) => {
      const [path, body] = JSON.parse(verdict.checked) as [SubmitPath, SubmitBody];
      const tried = alternativesTo(draft.kind, spec, pools).map(async (each): Promise<Offer | null> => {
        try {
          const answer = await postWorkload(path, { ...body, spec: each.spec }, { dryRun: true, signal });
          const outcome = answer.forecast?.outcome;
          if (outcome === "starts") return { ...each, outcome: "starts" };
          return outcome === "starts-after-preemption" ? { ...each, outcome: "preempts" } : null;
        } catch (error) {
          if (error instanceof ApiError) return null;
          throw error;
        }
      });
      return chosen(await Promise.all(tried));
    },
    enabled: isAsked,
    gcTime: 10_000,
  });
  return isAsked ? (query.data ?? null) : [];
}

/** Of each sort the nearest to what was asked. */
function chosen(tried: readonly (Offer | null)[]): Offer[] {
  const found: Offer[] = [];
  for (const each of tried)
    if (each !== null && !found.some((other) => other.what === each.what && other.outcome === each.outcome))
      found.push(each);
  return found.sort((a, b) => (a.outcome === b.outcome ? 0 : a.outcome === "starts" ? -1 : 1)).slice(0, 3);
}
