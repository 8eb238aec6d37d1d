/** The form of an asset, made of the table of its kind. */
import { Button, Drawer, Group, Select, Stack, Switch, TagsInput, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ApiError, call } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { type SpecFormState, UNBOUND } from "@/components/specForm/description";
import { ScopeFields } from "@/components/specForm/ScopeFields";
import { SpecFields, SpecForm } from "@/components/specForm/SpecForm";
import { valueAt, withValue } from "@/model/paths";
import { readMore } from "@/pages/submit/more";
import { computeQuery, environmentsQuery, useSuggestions } from "@/pages/submit/queries";
import { Sections } from "@/pages/submit/Sections";
import { field } from "@/pages/submit/sections";
import { text } from "@/text/assets";
import { text as shared } from "@/text/frame";
import classes from "./Assets.module.css";
import type { AssetKind, AssetType } from "./kinds";
import { type AssetDraft, requestOf } from "./request";
import { type AssetRow, pathOfRow } from "./rows";
import { useProjectNamed } from "./scope";

interface Props {
  kind: AssetKind;
  /** What is edited; none: something new, which begins with `first`. */
  row: AssetRow | null;
  first: AssetDraft;
  onClose: () => void;
}

export function AssetForm({ kind, row, first, onClose }: Props) {
  const [draft, setDraft] = useState(first);
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const queries = useQueryClient();
  const held = useWritesHeld();
  const type = kind.types.find((each) => each.value === draft.type) ?? kind.types[0]!;
  const change = (given: Partial<AssetDraft>) => setDraft((before) => ({ ...before, ...given }));
  const more = useMemo(() => readMore(draft.more), [draft.more]);
  const one = text.kinds[kind.key].one;
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      const body = requestOf(kind, type, draft, more.fields, row === null);
      await call(row === null ? "POST" : "PUT", row === null ? kind.path(type.value) : pathOfRow(kind.key, row), body);
      await queries.invalidateQueries({ queryKey: ["assets"] });
      done(row === null ? text.created(draft.name) : text.changed(draft.name));
      onClose();
    } catch (problem) {
      if (problem instanceof ApiError) setError(problem);
      refused(problem);
      setBusy(false);
    }
  };
  return (
    <Drawer
      opened
      onClose={onClose}
      position="right"
      size="lg"
      title={row === null ? text.create(one) : text.edit(one, row.name)}
      closeButtonProps={{ "aria-label": shared.shared.close }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <Stack gap="sm">
          <General kind={kind} draft={draft} change={change} error={error} isNew={row === null} />
          <Values kind={kind} type={type} draft={draft} change={change} error={error} moreError={more.error} />
          <Group justify="flex-end">
            <Button onClick={onClose}>{shared.shared.cancel}</Button>
            <Button
              type="submit"
              variant="filled"
              loading={isBusy}
              disabled={held || draft.name === "" || more.error !== null}
            >
              {row === null ? shared.shared.create : shared.shared.save}
            </Button>
          </Group>
        </Stack>
      </form>
    </Drawer>
  );
}

interface PartProps {
  kind: AssetKind;
  draft: AssetDraft;
  change: (change: Partial<AssetDraft>) => void;
  error: ApiError | null;
}

function General({ kind, draft, change, error, isNew }: PartProps & { isNew: boolean }) {
  const isMap = kind.key === "configmaps";
  const isFixed = !isNew && (kind.isSecret === true || isMap);
  return (
    <>
      {kind.types.length > 1 && (
        <Select
          label={text.type}
          data={kind.types.map(({ value, label }) => ({ value, label }))}
          value={draft.type}
          onChange={(next) => next !== null && change({ type: next, spec: {} })}
          allowDeselect={false}
          disabled={!isNew}
        />
      )}
      <TextInput
        label={text.name}
        value={draft.name}
        onChange={(event) => change({ name: event.currentTarget.value })}
        error={(error?.of("meta.name") ?? error?.of("name"))?.what}
        disabled={isFixed}
        {...(isFixed ? { description: text.nameFixed } : {})}
        spellCheck={false}
        withAsterisk
        data-autofocus
      />
      {!isMap && (
        <TextInput
          label={text.description}
          value={draft.description}
          onChange={(event) => change({ description: event.currentTarget.value })}
          error={error?.of("meta.description")?.what}
        />
      )}
      <ScopeFields
        value={isMap ? { ...draft.scope, scope: "project" } : draft.scope}
        onChange={(scope) => change({ scope })}
        error={scopeError(error)}
        isFixed={!isNew}
        onlyProject={isMap}
      />
      {kind.isSecret && (
        <Switch
          label={text.clusterWide}
          checked={draft.clusterWide}
          onChange={(event) => change({ clusterWide: event.currentTarget.checked })}
        />
      )}
      {kind.key === "templates" && <TemplateRules kind={kind} draft={draft} change={change} error={error} />}
    </>
  );
}

function scopeError(error: ApiError | null): string | undefined {
  return error?.problems.find((each) =>
    /^(meta\.(scope|projectId|departmentId|clusterId)|projectId)$/.test(each.field ?? ""),
  )?.what;
}

function TemplateRules({ draft, change, error }: PartProps) {
  return (
    <>
      <Switch
        label={text.administrative}
        description={text.administrativeHint}
        checked={draft.administrative}
        onChange={(event) => change({ administrative: event.currentTarget.checked })}
        error={error?.of("administrative")?.what}
      />
      <TagsInput
        label={text.required}
        description={text.requiredHint}
        value={draft.required}
        onChange={(required) => change({ required })}
        error={error?.of("required")?.what}
      />
      {draft.administrative && (
        <TagsInput
          label={text.locked}
          description={text.lockedHint}
          value={draft.locked}
          onChange={(locked) => change({ locked })}
          error={error?.of("locked")?.what}
        />
      )}
    </>
  );
}

const namesOf = (assets: readonly { meta: { name: string } }[] | undefined): string[] => [
  ...new Set((assets ?? []).map((each) => each.meta.name)),
];

const TEMPLATE_FIELDS = [
  field("image", "text", { isWide: true }),
  field("command", "text"),
  field("args", "text"),
  field("compute.gpu", "text", { placeholder: "0.5" }),
  field("compute.gpuMemoryRequest", "text", { placeholder: "4G" }),
  field("assets.environment", "suggest", { source: "environments" }),
  field("assets.compute", "suggest", { source: "computes" }),
];

function Values({
  kind,
  type,
  draft,
  change,
  error,
  moreError,
}: PartProps & { type: AssetType; moreError: string | null }) {
  const project = useProjectNamed(draft.scope.project);
  const known = useSuggestions(project, true);
  const environments = useQuery(environmentsQuery).data;
  const computes = useQuery(computeQuery).data;
  const suggestions = useMemo(
    () => ({ ...known, environments: namesOf(environments), computes: namesOf(computes) }),
    [known, environments, computes],
  );
  const [open, setOpen] = useState<string[]>([]);
  const state = useMemo<SpecFormState>(
    () => ({
      values: draft.spec,
      set: (path, value) => change({ spec: withValue(draft.spec, path, value) }),
      replace: (spec) => change({ spec }),
      problemAt: (path) => problemAt(error, path, Array.isArray(valueAt(draft.spec, path))),
      boundAt: () => UNBOUND,
      suggestions,
      givenItems: () => [],
    }),
    [draft.spec, change, error, suggestions],
  );
  return (
    <SpecForm state={state}>
      {kind.isSecret && <p className={classes.hint}>{text.secretHint}</p>}
      {kind.key === "templates" ? (
        <>
          <SpecFields fields={TEMPLATE_FIELDS} />
          <Sections
            kind="training"
            open={open}
            onOpen={setOpen}
            more={draft.more}
            onMore={(next) => change({ more: next })}
            moreError={moreError}
          />
        </>
      ) : (
        <SpecFields key={type.value} fields={type.fields} />
      )}
    </SpecForm>
  );
}

/** `spec.path` of most kinds; of config maps the field itself. */
function problemAt(error: ApiError | null, path: string, isList: boolean): string | undefined {
  const found = error?.problems.filter(({ field: at }) => {
    const named = at?.replace(/^spec\./, "");
    return named === path || (isList && named?.startsWith(`${path}.`));
  });
  return found?.map((each) => (each.fix ? `${each.what}: ${each.fix}` : each.what)).join(". ") || undefined;
}
