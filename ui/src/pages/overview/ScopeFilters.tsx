import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { departmentsQuery, poolsQuery } from "@/api/queries";
import { text } from "@/text/overview";
import type { Scope } from "./questions";

interface Props {
  scope: Scope;
  set: (change: { pool?: string; department?: string }) => void;
}

/** Node pool and department. Each is left out where the reader sees at most one. */
export function ScopeFilters({ scope, set }: Props) {
  const pools = useQuery(poolsQuery).data ?? [];
  const departments = useQuery(departmentsQuery).data ?? [];
  return (
    <>
      {(pools.length > 1 || scope.pool !== undefined) && (
        <Select
          size="xs"
          w={160}
          aria-label={text.pool}
          placeholder={text.allPools}
          clearable
          searchable={pools.length > 8}
          value={scope.pool ?? null}
          data={names(
            pools.map((each) => each.name),
            scope.pool,
          )}
          onChange={(value) => set({ pool: value ?? "" })}
        />
      )}
      {(departments.length > 1 || scope.department !== undefined) && (
        <Select
          size="xs"
          w={180}
          aria-label={text.department}
          placeholder={text.allDepartments}
          clearable
          searchable={departments.length > 8}
          value={scope.department ?? null}
          data={
            departments.length === 0
              ? names([], scope.department)
              : departments.map((each) => ({ value: each.id, label: each.name }))
          }
          onChange={(value) => set({ department: value ?? "" })}
        />
      )}
    </>
  );
}

/** With what the address names, even if it does not exist. */
function names(known: string[], given: string | undefined): string[] {
  return given === undefined || known.includes(given) ? known : [...known, given];
}
