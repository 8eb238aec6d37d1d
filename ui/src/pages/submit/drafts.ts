/** The draft of each kind: kept in the browser, so that it survives a reload, until it is submitted. */
import { useCallback, useEffect, useRef, useState } from "react";
import { draftKey, kept } from "@/model/draftStore";
import { type Fields, isFields } from "@/model/paths";
import { type Draft, hasField, type Kind } from "@/model/submission";

const LAST_PROJECT = "fairpool.draft-project";

export const lastProject = (): string => kept.read(LAST_PROJECT) ?? "";

function storedDraft(user: string, kind: Kind): Draft | null {
  const text = kept.read(draftKey(user, kind));
  if (text === null) return null;
  try {
    const found = JSON.parse(text) as Partial<Draft>;
    return typeof found.name === "string" && isFields(found.spec) ? { ...emptyDraft(kind), ...found, kind } : null;
  } catch {
    return null;
  }
}

const FIRST_SPEC: Record<Kind, Fields> = {
  workspace: { compute: { gpu: "1" } },
  training: { compute: { gpu: "1" } },
  distributed: { compute: { gpu: "1" }, distributedFramework: "PyTorch", numWorkers: 1 },
  sweep: { compute: { gpu: "1" }, array: { indices: "0-9" }, parallelism: 2 },
  inference: { compute: { gpu: "1" }, servingPort: { container: 8000 }, autoscaling: { minReplicas: 1 } },
};

export function emptyDraft(kind: Kind): Draft {
  return {
    kind,
    project: lastProject(),
    name: `${kind === "sweep" ? "sweep" : kind === "inference" ? "model" : kind}-1`,
    isNameSuggested: true,
    spec: FIRST_SPEC[kind],
    more: "",
    waitAnyway: false,
    suspended: false,
  };
}

/** Another kind takes over what both have: nobody types an image twice. */
function carriedOver(from: Draft, kind: Kind): Draft {
  const fresh = emptyDraft(kind);
  const shared = Object.fromEntries(Object.entries(from.spec).filter(([field]) => hasField(kind, field)));
  return {
    ...fresh,
    project: from.project,
    name: from.isNameSuggested ? fresh.name : from.name,
    isNameSuggested: from.isNameSuggested,
    spec: { ...fresh.spec, ...shared },
  };
}

export interface DraftState {
  draft: Draft;
  change: (change: Partial<Draft> | ((draft: Draft) => Draft)) => void;
  /** Begin again, with nothing or with what is given. */
  reset: (draft?: Draft) => void;
  /** After a submit: nothing of it is kept. */
  forget: () => void;
  /** The same key for the same request: what is sent twice is done once. */
  keyFor: (request: string) => string;
}

export function useDraft(user: string, kind: Kind, project: string | undefined): DraftState {
  const [draft, setDraft] = useState<Draft>(() => withProject(storedDraft(user, kind) ?? emptyDraft(kind), project));
  const sent = useRef<{ request: string; key: string } | null>(null);
  const current = draft.kind === kind ? draft : (storedDraft(user, kind) ?? carriedOver(draft, kind));
  if (current !== draft) setDraft(current);
  useEffect(() => {
    kept.write(draftKey(user, draft.kind), JSON.stringify(draft));
    if (draft.project !== "") kept.write(LAST_PROJECT, draft.project);
  }, [draft, user]);
  const change = useCallback((given: Partial<Draft> | ((draft: Draft) => Draft)) => {
    setDraft((before) => (typeof given === "function" ? given(before) : { ...before, ...given }));
  }, []);
  const reset = useCallback(
    (given?: Draft) => {
      kept.write(draftKey(user, kind), null);
      sent.current = null;
      setDraft(given ?? emptyDraft(kind));
    },
    [kind, user],
  );
  const keyFor = useCallback((request: string) => {
    if (sent.current?.request !== request) sent.current = { request, key: crypto.randomUUID() };
    return sent.current.key;
  }, []);
  const forget = useCallback(() => kept.write(draftKey(user, current.kind), null), [user, current.kind]);
  return { draft: current, change, reset, forget, keyFor };
}

function withProject(draft: Draft, project: string | undefined): Draft {
  return project === undefined || project === "" ? draft : { ...draft, project };
}
