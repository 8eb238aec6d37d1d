/** For which projects an asset is. */
import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { clustersQuery, departmentsQuery, projectsQuery } from "@/api/queries";
import { text } from "@/text/assets";

export interface Scope {
  scope: "tenant" | "cluster" | "department" | "project";
  cluster: string;
  department: string;
  project: string;
}

export const EMPTY_SCOPE: Scope = { scope: "tenant", cluster: "", department: "", project: "" };

/** The scope as the API takes it. */
export function scopeMeta(given: Scope) {
  return {
    scope: given.scope,
    ...(given.scope === "cluster" ? { clusterId: given.cluster } : {}),
    ...(given.scope === "department" ? { departmentId: given.department } : {}),
    ...(given.scope === "project" ? { projectId: given.project } : {}),
  };
}

interface Props {
  value: Scope;
  onChange: (scope: Scope) => void;
  error?: string | undefined;
  /** Scopes stay as they are once something was created. */
  isFixed?: boolean;
  /** What exists within a project only. */
  onlyProject?: boolean;
}

export function ScopeFields({ value, onChange, error, isFixed = false, onlyProject = false }: Props) {
  const projects = useQuery(projectsQuery).data ?? [];
  const departments = useQuery({ ...departmentsQuery, enabled: value.scope === "department" }).data ?? [];
  const clusters = useQuery(clustersQuery).data ?? [];
  const of =
    value.scope === "project"
      ? { key: "project" as const, data: projects.map((each) => ({ value: each.name, label: each.name })) }
      : value.scope === "department"
        ? { key: "department" as const, data: departments.map((each) => ({ value: each.name, label: each.name })) }
        : value.scope === "cluster"
          ? { key: "cluster" as const, data: clusters.map((each) => ({ value: each.uuid, label: each.name })) }
          : null;
  return (
    <>
      {!onlyProject && (
        <Select
          label={text.scope}
          data={(["tenant", "cluster", "department", "project"] as const).map((each) => ({
            value: each,
            label: text.scopes[each],
          }))}
          value={value.scope}
          onChange={(next) => next !== null && onChange({ ...value, scope: next as Scope["scope"] })}
          allowDeselect={false}
          error={error}
          disabled={isFixed}
        />
      )}
      {of !== null && (
        <Select
          label={text.scopeOf[of.key]}
          data={of.data}
          value={value[of.key] === "" ? null : value[of.key]}
          onChange={(next) => onChange({ ...value, [of.key]: next ?? "" })}
          searchable
          disabled={isFixed}
          error={onlyProject ? error : undefined}
          withAsterisk
        />
      )}
    </>
  );
}
