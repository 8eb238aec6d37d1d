/** From intent to started: the form at the left, the verdict at the right, both alive. */
import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { api, got } from "@/api/client";
import { useMe } from "@/api/queries";
import { Page } from "@/components/Page";
import { Empty, Failed, Loading } from "@/components/states";
import { wordIn } from "@/model/address";
import { KINDS, type Kind } from "@/model/submission";
import { text } from "@/text/submit";
import { cloneOf, type Given, withGiven } from "./clone";
import { type DraftState, useDraft } from "./drafts";
import { useOwnProjects } from "./queries";
import classes from "./Submit.module.css";
import { SubmitForm } from "./SubmitForm";

type Search = Given & Partial<Record<"kind" | "clone" | "project", string | undefined>>;

/** The address, which anybody can have written. */
function useAddress(): Search {
  const raw = useSearch({ strict: false }) as Record<string, unknown>;
  return {
    kind: wordIn(raw.kind),
    clone: wordIn(raw.clone),
    gpu: wordIn(raw.gpu),
    template: wordIn(raw.template),
    name: wordIn(raw.name),
    workers: wordIn(raw.workers),
    project: wordIn(raw.project),
  };
}

export function SubmitPage() {
  const me = useMe();
  if (me === undefined)
    return (
      <Page title={text.title}>
        <Loading height={480} />
      </Page>
    );
  return <Submit key={me.id} user={me.id} />;
}

function Submit({ user }: { user: string }) {
  const search = useAddress();
  const navigate = useNavigate();
  const kind: Kind = KINDS.find((each) => each === search.kind) ?? "training";
  const state = useDraft(user, kind, search.project);
  const copy = useClone(search, state);
  const projects = useOwnProjects(kind);
  const choose = (next: string) => void navigate({ to: "/submit", search: { kind: next } as never, replace: true });
  return (
    <Page title={text.title} lead={copy.name === null ? text.kinds[kind].hint : text.cloned(copy.name)}>
      <div className={classes.kinds}>
        <SegmentedControl
          data={KINDS.map((value) => ({ value, label: text.kinds[value].label }))}
          value={kind}
          onChange={choose}
          aria-label={text.kind}
        />
      </div>
      {copy.error !== null && <Failed error={copy.error} what={text.cloneFailed} />}
      {projects === undefined || copy.isLoading ? (
        <Loading height={480} />
      ) : projects.length === 0 ? (
        <Empty title={text.noProject} hint={text.noProjectHint} />
      ) : (
        <SubmitForm key={kind} state={state} projects={projects} />
      )}
    </Page>
  );
}

/** Fills the draft once from what the address names, and takes that out of the address: a reload keeps the draft. */
function useClone(search: Search, state: DraftState): { name: string | null; isLoading: boolean; error: unknown } {
  const navigate = useNavigate();
  const [name, setName] = useState<string | null>(null);
  const [isFilling, setFilling] = useState(false);
  const { clone, gpu, template, name: called, workers } = search;
  const query = useQuery({
    queryKey: ["workloads", "clone", clone],
    queryFn: () => got(api.GET("/api/v1/workloads/{workload_id}", { params: { path: { workload_id: clone! } } })),
    enabled: clone !== undefined,
    gcTime: 0,
  });
  const { reset, change } = state;
  useEffect(() => {
    if (query.data === undefined) return;
    const draft = cloneOf(query.data, gpu);
    setName(query.data.name);
    setFilling(true);
    const isThere = navigate({ to: "/submit", search: { kind: draft.kind } as never, replace: true });
    void isThere.then(() => reset(draft)).finally(() => setFilling(false));
  }, [query.data, gpu, navigate, reset]);
  useEffect(() => {
    const given = { template, name: called, gpu, workers };
    if (clone !== undefined || Object.values(given).every((each) => each === undefined)) return;
    change((draft) => withGiven(draft, given));
    const rest = ({ template: _t, name: _n, gpu: _g, workers: _w, ...others }: Search) => others;
    void navigate({ to: ".", search: rest, replace: true } as never);
  }, [template, called, gpu, workers, clone, change, navigate]);
  // The form comes with the copy in it: the draft before must not be checked meanwhile.
  const isLoading = isFilling || (clone !== undefined && !query.isError);
  return { name, isLoading, error: query.error };
}
