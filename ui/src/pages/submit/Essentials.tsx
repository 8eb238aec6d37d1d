/** What every workload needs, and what fills the rest: project, name, template, image, command, GPUs. */
import { Button, MultiSelect, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Card } from "@/components/Card";
import { ProjectDot } from "@/components/ProjectName";
import { SpecFields } from "@/components/specForm/SpecForm";
import { type Fields, isEmpty, isFields, valueAt, withValue } from "@/model/paths";
import { type Draft, nextName, policyKindOf, renamed } from "@/model/submission";
import { text } from "@/text/submit";
import { GpuRequest } from "./GpuRequest";
import { applied, PRESETS } from "./presets";
import { computeQuery, dataSourcesQuery, environmentsQuery, isFor, type Project, templatesQuery } from "./queries";
import classes from "./Submit.module.css";
import { field } from "./sections";

interface Props {
  draft: Draft;
  change: (change: Partial<Draft> | ((draft: Draft) => Draft)) => void;
  projects: readonly Project[];
  project: Project | undefined;
  problemOf: (field: string) => string | undefined;
  isNameTaken: boolean;
}

export function Essentials({ draft, change, projects, project, problemOf, isNameTaken }: Props) {
  const setSpec = (spec: Fields) => change({ spec });
  const rename = (name: string) => change((before) => renamed(before, name, false));
  const presets = PRESETS.filter((each) => each.kinds.includes(draft.kind));
  return (
    <Card title={text.what}>
      <div className={classes.stack}>
        <div className={classes.pair}>
          <Select
            label={text.project}
            data={projects.map((each) => each.name)}
            value={draft.project === "" ? null : draft.project}
            onChange={(next) => next !== null && change({ project: next })}
            searchable
            allowDeselect={false}
            error={problemOf("projectId")}
            leftSection={draft.project === "" ? undefined : <ProjectDot project={draft.project} />}
            data-field="projectId"
            withAsterisk
          />
          <div>
            <TextInput
              label={text.name}
              value={draft.name}
              onChange={(event) => rename(event.currentTarget.value)}
              error={problemOf("name")}
              spellCheck={false}
              autoComplete="off"
              data-field="name"
            />
            {isNameTaken && (
              <Button size="compact-xs" mt={4} onClick={() => rename(nextName(draft.name))}>
                {text.takeName(nextName(draft.name))}
              </Button>
            )}
          </div>
        </div>
        <StartFrom draft={draft} onSpec={setSpec} project={project} />
        <div>
          <SpecFields fields={WHAT.slice(0, 1)} />
          {presets.length > 0 && (
            <div className={classes.presets}>
              <span>{text.presets}</span>
              {presets.map((each) => (
                <Button key={each.key} size="compact-xs" onClick={() => setSpec(applied(each, draft.name, draft.spec))}>
                  {text.preset[each.key]}
                </Button>
              ))}
            </div>
          )}
        </div>
        <SpecFields fields={WHAT.slice(1)} />
        <GpuRequest spec={draft.spec} onSpec={setSpec} pools={project?.defaultNodePools ?? []} />
      </div>
    </Card>
  );
}

const WHAT = [
  field("image", "suggest", { source: "images", isWide: true, isRequired: true, placeholder: "python" }),
  field("command", "area", { placeholder: "python train.py" }),
  field("args", "area", { placeholder: "--epochs 3" }),
];

/** Template and assets that give values to what the form does not say. */
function StartFrom({
  draft,
  onSpec,
  project,
}: {
  draft: Draft;
  onSpec: (spec: Fields) => void;
  project: Project | undefined;
}) {
  const templates = useQuery(templatesQuery).data;
  const environments = useQuery(environmentsQuery).data;
  const computes = useQuery(computeQuery).data;
  const sources = useQuery(dataSourcesQuery).data;
  const kind = policyKindOf(draft.kind);
  const names = useMemo(() => {
    const of = (entries: readonly Named[] | undefined) => [
      ...new Set(
        (entries ?? []).filter((each) => isFor(each, project) && isForKind(each, kind)).map((each) => each.meta.name),
      ),
    ];
    return {
      templates: of((templates ?? []).filter((each) => !each.administrative)),
      environments: of(environments),
      computes: of(computes),
      sources: of(sources),
    };
  }, [templates, environments, computes, sources, project, kind]);
  const chosen = (valueAt(draft.spec, "assets.datasources") as unknown[] | undefined) ?? [];
  const one = (label: string, path: string, data: string[], onChange?: (name: string | null) => void) =>
    (data.length > 0 || !isEmpty(valueAt(draft.spec, path))) && (
      <Select
        label={label}
        data={withOwn(data, valueAt(draft.spec, path))}
        value={(valueAt(draft.spec, path) as string | undefined) ?? null}
        onChange={(name) => (onChange ? onChange(name) : onSpec(withValue(draft.spec, path, name ?? undefined)))}
        placeholder={text.none}
        clearable
        searchable
        data-field={path}
      />
    );
  /** The template or asset is to say what it can: what the form has only by default gives way. */
  const taking = (path: string) => (name: string | null) => {
    const spec = withValue(draft.spec, path, name ?? undefined);
    onSpec(name !== null && valueAt(spec, "compute.gpu") === "1" ? withValue(spec, "compute.gpu", undefined) : spec);
  };
  const isNone = Object.values(names).every((each) => each.length === 0);
  if (isNone && isEmpty(draft.spec.template) && isEmpty(draft.spec.assets)) return null;
  return (
    <div className={classes.quarter}>
      {one(text.template, "template", names.templates, taking("template"))}
      {one(text.environment, "assets.environment", names.environments)}
      {one(text.compute, "assets.compute", names.computes, taking("assets.compute"))}
      {(names.sources.length > 0 || chosen.length > 0) && (
        <MultiSelect
          label={text.dataSources}
          data={names.sources}
          value={chosen.map((each) => String(isFields(each) ? each.id : each))}
          onChange={(next) => onSpec(withValue(draft.spec, "assets.datasources", next))}
          placeholder={chosen.length === 0 ? text.none : undefined}
          searchable
          data-field="assets.datasources"
        />
      )}
    </div>
  );
}

interface Named {
  meta: {
    name: string;
    scope: string;
    projectName?: string | null;
    departmentId?: string | null;
    clusterId?: string | null;
    workloadSupportedTypes?: {
      workspace?: boolean;
      training?: boolean;
      distributed?: boolean;
      inference?: boolean;
    } | null;
  };
}

function isForKind(each: Named, kind: "workspace" | "training" | "distributed" | "inference"): boolean {
  return each.meta.workloadSupportedTypes?.[kind] !== false;
}

function withOwn(names: string[], own: unknown): string[] {
  return typeof own === "string" && !names.includes(own) ? [...names, own] : names;
}
