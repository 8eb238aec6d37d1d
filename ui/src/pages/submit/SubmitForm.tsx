import { Button, Checkbox, VisuallyHidden } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState } from "react";
import { ApiError, type Problem } from "@/api/client";
import { poolsQuery } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { Card } from "@/components/Card";
import { SpecFields, SpecForm } from "@/components/specForm/SpecForm";
import { bodyOf, commandLineOf, formOf, nextName, pathOf, renamed, specOf } from "@/model/submission";
import { text } from "@/text/submit";
import { CommandCard } from "./CommandCard";
import type { DraftState } from "./drafts";
import { Essentials } from "./Essentials";
import { useFormState } from "./formState";
import { readMore } from "./more";
import type { Project } from "./queries";
import { SaveTemplate } from "./SaveTemplate";
import { Sections } from "./Sections";
import classes from "./Submit.module.css";
import { foldedSections, ownSection } from "./sections";
import { Headline, VerdictPanel } from "./VerdictPanel";
import { DRY_RUNS, postWorkload, useOffers, useVerdict, withoutTakenName } from "./verdict";

export function SubmitForm({ state, projects }: { state: DraftState; projects: readonly Project[] }) {
  const { draft, change } = state;
  const project = projects.find((each) => each.name === draft.project);
  useProject(state, projects, project);
  const more = useMemo(() => readMore(draft.more), [draft.more]);
  const body = useMemo(() => bodyOf(draft, more.fields), [draft, more.fields]);
  const [isSending, setSending] = useState(false);
  const verdict = useVerdict(draft, body, isSending);
  const pools = (useQuery(poolsQuery).data ?? []).map((each) => each.name);
  const spec = useMemo(() => specOf(draft, more.fields), [draft, more.fields]);
  const offers = useOffers(draft, spec, verdict, pools.length > 1 ? pools : []);
  const [open, setOpen] = useState<string[]>([]);
  const { form, isNameTaken, problemOf, touchAll } = useFormState({ state, project, verdict, isOpen: open.length > 0 });
  useFreeName(state, isNameTaken);
  const said = withoutTakenName(verdict, draft.isNameSuggested);
  const [isSaving, setSaving] = useState(false);
  const [isUnfolded, unfold] = useState(false);
  const send = useSend(state, body, more.fields, setSending, touchAll);
  const held = useWritesHeld();
  const show = (problem: Problem) => {
    unfold(false);
    const path = (problem.field ?? "").replace(/^spec\./, "");
    const section = foldedSections(draft.kind).find(({ fields }) => fields.some((each) => isWithin(path, each.path)));
    if (section !== undefined && !open.includes(section.key)) setOpen([...open, section.key]);
    setTimeout(() => focusField(path), 260); // the section opens within 240 ms
  };
  const isReady = !held && !isSending && more.error === null && draft.project !== "";
  const submit = (
    <Button variant="filled" onClick={() => void send()} disabled={!isReady} loading={isSending}>
      {text.submit}
    </Button>
  );
  const own = ownSection(draft.kind);
  const panel = (
    <VerdictPanel
      verdict={said}
      offers={offers}
      project={draft.project}
      onOffer={(offer) => change({ spec: formOf(offer.spec), waitAnyway: false })}
      onProblem={show}
      isWaitingAnyway={draft.waitAnyway}
      onWaitAnyway={(waitAnyway) => change({ waitAnyway })}
    />
  );
  return (
    <SpecForm state={form}>
      <div className={classes.layout}>
        <div className={classes.form}>
          <Essentials
            draft={draft}
            change={change}
            projects={projects}
            project={project}
            problemOf={(field) => (field === "name" && said !== verdict ? undefined : problemOf(field))}
            isNameTaken={isNameTaken && !draft.isNameSuggested}
          />
          {own !== null && (
            <Card title={text.sections[own.key]}>
              <SpecFields fields={own.fields} />
            </Card>
          )}
          <Sections
            kind={draft.kind}
            open={open}
            onOpen={setOpen}
            more={draft.more}
            onMore={(next) => change({ more: next })}
            moreError={more.error}
          />
        </div>
        <div className={classes.side}>
          <Card title={text.verdict.title}>
            <div className={classes.wide}>{panel}</div>
            <div className={classes.buttons}>
              <span className={classes.wide}>{submit}</span>
              <Button onClick={() => setSaving(true)}>{text.saveTemplate}</Button>
              <Button variant="subtle" onClick={() => state.reset()}>
                {text.reset}
              </Button>
            </div>
            <Checkbox
              mt="sm"
              size="xs"
              label={text.suspended}
              checked={draft.suspended}
              onChange={(event) => change({ suspended: event.currentTarget.checked })}
            />
          </Card>
          <CommandCard draft={draft} more={more.fields} />
        </div>
      </div>
      <div className={classes.bar}>
        {isUnfolded && <div className={classes.barOpen}>{panel}</div>}
        <div className={classes.barRow}>
          <button
            type="button"
            className={classes.barToggle}
            onClick={() => unfold(!isUnfolded)}
            aria-expanded={isUnfolded}
          >
            <Headline verdict={said} isShort />
            <VisuallyHidden>{isUnfolded ? text.verdict.closes : text.verdict.opens}</VisuallyHidden>
          </button>
          {submit}
        </div>
      </div>
      {isSaving && <SaveTemplate spec={spec} project={draft.project} onClose={() => setSaving(false)} />}
    </SpecForm>
  );
}

const isWithin = (path: string, field: string): boolean => path === field || path.startsWith(`${field}.`);

function focusField(path: string): void {
  const marked = [...document.querySelectorAll<HTMLElement>("[data-field]")];
  const found = marked
    .filter((each) => isWithin(path, each.dataset.field!))
    .sort((a, b) => b.dataset.field!.length - a.dataset.field!.length)[0];
  const target = found?.matches("input, textarea, button")
    ? found
    : found?.querySelector<HTMLElement>("input, textarea, button");
  found?.scrollIntoView({ block: "center", behavior: "smooth" });
  (target ?? found)?.focus({ preventScroll: true });
}

/** A draft whose project is gone, or that has none yet, takes the first one. */
function useProject({ change }: DraftState, projects: readonly Project[], project: Project | undefined): void {
  const first = projects[0]?.name;
  useEffect(() => {
    if (project === undefined && first !== undefined) change({ project: first });
  }, [project, first, change]);
}

/** A name that was only suggested makes room for the next one if it is taken. */
function useFreeName({ draft, change }: DraftState, isTaken: boolean): void {
  const { isNameSuggested } = draft;
  useEffect(() => {
    if (isTaken && isNameSuggested) change((before) => renamed(before, nextName(before.name), true));
  }, [isTaken, isNameSuggested, change]);
}

function useSend(
  state: DraftState,
  body: ReturnType<typeof bodyOf>,
  more: Record<string, unknown>,
  setSending: (isSending: boolean) => void,
  onRefused: () => void,
) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const { draft, change, forget, keyFor } = state;
  return useCallback(async () => {
    setSending(true);
    void queries.cancelQueries({ queryKey: DRY_RUNS });
    try {
      const full = { ...body, commandLine: commandLineOf(draft, more).text };
      const key = keyFor(JSON.stringify([draft.kind, full]));
      const made = await postWorkload(pathOf(draft.kind), full, { dryRun: false, key });
      forget();
      done(text.submitted(made.name));
      await navigate({ to: "/workloads/$workload", params: { workload: made.id } });
    } catch (error) {
      // Perhaps only the answer was lost: sent again under the same name and key, it is done once.
      if (error instanceof ApiError && error.status === 0) change({ isNameSuggested: false });
      onRefused();
      refused(error);
      setSending(false);
    }
  }, [body, draft, change, forget, more, keyFor, navigate, onRefused, queries, setSending]);
}
