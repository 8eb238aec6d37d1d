/** Drafts that are begun elsewhere: a copy of a workload, or what a link gives. */
import type { Schema } from "@/api/client";
import { type Fields, isFields, valueAt, withValue } from "@/model/paths";
import { type Draft, formOf, kindOf, nextName, withGpus } from "@/model/submission";
import { emptyDraft } from "./drafts";

/** Values that its template, assets or policies gave are left out: they give them again, or what is there by now. */
export function cloneOf(workload: Schema<"Workload">, gpu?: string): Draft {
  let spec: Fields = { ...((workload.spec ?? {}) as Fields) };
  for (const path of Object.keys(workload.valueOrigins ?? {}))
    if (!Array.isArray(valueAt(spec, path)) && !isFields(valueAt(spec, path))) spec = withValue(spec, path, undefined);
  delete spec.workdir; // an uploaded folder belongs to one workload
  const kind = kindOf(workload.type, spec);
  const form = formOf(spec);
  return {
    ...emptyDraft(kind),
    project: workload.projectName ?? workload.projectId,
    name: nextName(workload.name),
    isNameSuggested: true,
    spec: gpu === undefined || gpu === "" ? form : withGpus(form, { gpu }),
  };
}

/** What a link to the form can give: a template, or the request of a job that was tried in What if. */
export interface Given {
  template?: string | undefined;
  name?: string | undefined;
  gpu?: string | undefined;
  workers?: string | undefined;
}

export function withGiven(draft: Draft, { template, name, gpu, workers }: Given): Draft {
  let { spec } = draft;
  if (template) spec = withValue(withValue(spec, "compute.gpu", undefined), "template", template);
  if (gpu) spec = withGpus(spec, { gpu });
  if (Number(workers) > 0) spec = withValue(spec, "numWorkers", Number(workers));
  return name ? { ...draft, name, isNameSuggested: false, spec } : { ...draft, spec };
}
