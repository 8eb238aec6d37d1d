/** What a form of an asset sends. */
import { type Scope, scopeMeta } from "@/components/specForm/ScopeFields";
import { type Fields, isEmpty, isFields, merged, pruned, valueAt } from "@/model/paths";
import { tidied } from "@/model/submission";
import type { AssetKey, AssetKind, AssetType } from "./kinds";

export interface AssetDraft {
  name: string;
  description: string;
  scope: Scope;
  type: string;
  spec: Fields;
  more: string;
  administrative: boolean;
  required: string[];
  locked: string[];
  clusterWide: boolean;
}

const rowsByName = (rows: unknown): Record<string, string> =>
  Object.fromEntries(
    (Array.isArray(rows) ? rows.filter(isFields) : [])
      .filter((row) => !isEmpty(row.name))
      .map((row) => [String(row.name), String(row.value ?? "")]),
  );

/** Whether a secret was typed: without one, the values stay as they are. */
export function hasSecret(type: AssetType, spec: Fields): boolean {
  return type.fields.some((field) =>
    field.control === "list"
      ? Object.keys(rowsByName(valueAt(spec, field.path))).length > 0
      : field.control === "secret" && !isEmpty(valueAt(spec, field.path)),
  );
}

/** `isNew`: to create it; otherwise to replace it, where names and scopes of secrets stay. */
export function requestOf(kind: AssetKind, type: AssetType, draft: AssetDraft, more: Fields, isNew: boolean): Fields {
  const { key } = kind;
  if (key === "configmaps") {
    const data = rowsByName(draft.spec.data);
    return isNew ? { name: draft.name, projectId: draft.scope.project, data } : { data };
  }
  const named = { name: draft.name, description: draft.description };
  const meta = isNew ? { ...named, ...scopeMeta(draft.scope) } : named;
  if (kind.isSecret) return secretRequest(type, draft, isNew ? meta : { description: draft.description }, isNew);
  return {
    meta,
    spec: valuesOf(key, draft, more),
    ...(key === "templates"
      ? { administrative: draft.administrative, required: draft.required, locked: draft.locked }
      : {}),
  };
}

function secretRequest(type: AssetType, draft: AssetDraft, meta: Fields, isNew: boolean): Fields {
  const known = Object.fromEntries(type.fields.map(({ path }) => [path, draft.spec[path]]));
  const spec = "data" in known ? { data: rowsByName(known.data) } : pruned(known);
  const isSaid = isNew || hasSecret(type, draft.spec);
  return { meta, clusterWide: draft.clusterWide, ...(isSaid ? { spec } : {}) };
}

function valuesOf(key: AssetKey, draft: AssetDraft, more: Fields): Fields {
  return key === "templates" ? merged(tidied(draft.spec), more) : pruned(draft.spec);
}
