/** What the fields of the form need: values, refusals at their field, and what binds them. */
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import type { SpecFormState } from "@/components/specForm/description";
import { type Fields, isEmpty, isFields, valueAt, withValue } from "@/model/paths";
import { shellWords } from "@/model/shell";
import { policyKindOf } from "@/model/submission";
import { text } from "@/text/submit";
import { type BoundsInput, boundAt, type Effective, givenItems } from "./bounds";
import type { DraftState } from "./drafts";
import { effectivePolicyQuery, isFor, type Project, templatesQuery, useSuggestions } from "./queries";
import { isTakenName, type Verdict } from "./verdict";

interface Input {
  state: DraftState;
  project: Project | undefined;
  verdict: Verdict;
  isOpen: boolean;
}

export interface FormState {
  form: SpecFormState;
  isNameTaken: boolean;
  problemOf: (field: string) => string | undefined;
  /** From now on also what is missing is shown at its field. */
  touchAll: () => void;
}

/** An item of a list as a whole; what is wrong with one of its fields stands there. */
const ITEM = /^\d+$/;

const PROGRAM = /(^|\.)(command|args)$/;
const isOpenQuote = (value: unknown): boolean => typeof value === "string" && shellWords(value) === null;

export function useFormState({ state, project, verdict, isOpen }: Input): FormState {
  const { draft, change } = state;
  const [touched, setTouched] = useState<ReadonlySet<string> | "all">(new Set());
  const bounds = useBounds(draft.project, policyKindOf(draft.kind), project, verdict);
  const suggestions = useSuggestions(project, isOpen);
  const set = useCallback(
    (path: string, value: unknown) => {
      setTouched((before) => (before === "all" || before.has(path) ? before : new Set([...before, path])));
      change((before) => ({ ...before, spec: withValue(before.spec, path, value) }));
    },
    [change],
  );
  const { problems } = verdict;
  const { spec } = draft;
  const problemOf = useCallback((field: string) => inOne(problems.filter((each) => each.field === field)), [problems]);
  const problemAt = useCallback(
    (path: string) => {
      if (PROGRAM.test(path) && isOpenQuote(valueAt(spec, path))) return text.bound.openQuote;
      const isSeen = touched === "all" || touched.has(path) || !isEmpty(valueAt(spec, path)) || /\.\d+\./.test(path);
      if (!isSeen) return undefined;
      const isList = Array.isArray(valueAt(spec, path));
      return inOne(
        problems.filter(({ field }) => {
          if (field === `spec.${path}`) return true;
          const within = field?.startsWith(`spec.${path}.`) ? field.slice(path.length + 6) : null;
          return within !== null && (!isList || ITEM.test(within));
        }),
      );
    },
    [problems, touched, spec],
  );
  const form = useMemo<SpecFormState>(
    () => ({
      values: spec,
      set,
      problemAt,
      boundAt: (path) => boundAt(bounds, path),
      suggestions,
      givenItems: (path) =>
        givenItems(bounds, path, ((valueAt(spec, path) as Fields[] | undefined) ?? []).filter(isFields)),
    }),
    [spec, set, problemAt, bounds, suggestions],
  );
  const isNameTaken = !verdict.isChecking && problems.some(isTakenName);
  return { form, isNameTaken, problemOf, touchAll: useCallback(() => setTouched("all"), []) };
}

function inOne(problems: readonly { what: string; fix?: string | null }[]): string | undefined {
  return problems.length === 0
    ? undefined
    : problems.map((each) => (each.fix ? `${each.what}: ${each.fix}` : each.what)).join(". ");
}

function useBounds(
  name: string,
  kind: BoundsInput["kind"],
  project: Project | undefined,
  verdict: Verdict,
): BoundsInput {
  const policy = useQuery(effectivePolicyQuery(name, kind)).data as Effective | undefined;
  const templates = useQuery(templatesQuery).data;
  const { answer } = verdict;
  return useMemo(
    () => ({
      kind,
      policy,
      templates: (templates ?? []).filter(
        (each) => each.administrative && isFor(each, project) && each.meta.workloadSupportedTypes?.[kind] !== false,
      ),
      filled: answer === null ? undefined : ((answer.spec ?? {}) as Fields),
      origins: (answer?.valueOrigins ?? {}) as Record<string, string>,
    }),
    [kind, policy, templates, project, answer],
  );
}
