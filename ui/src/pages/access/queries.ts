/** What the parts of this page ask. Nothing here is announced by the stream, so it is read again when a part is opened. */
import { keepPreviousData, queryOptions, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, got, type Schema } from "@/api/client";
import { allRows, PAGE_MAX } from "@/api/pages";
import { clustersQuery, departmentsQuery, projectsQuery } from "@/api/queries";
import type { Place, ScopeType } from "./question";

export const rolesQuery = queryOptions({
  queryKey: ["access", "roles"],
  queryFn: () => got(api.GET("/api/v1/authorization/roles")) as Promise<Schema<"Role">[]>,
  staleTime: 0,
});

/** All rules that fit, page by page. */
export function allRules(query: {
  subjectIds?: string;
  subjectType?: Schema<"SubjectType">;
  filterBy?: string;
  search?: string;
  sortBy?: string;
  sortOrder?: "asc" | "desc";
}) {
  return allRows(
    (offset) =>
      got(api.GET("/api/v1/authorization/access-rules", { params: { query: { ...query, offset, limit: PAGE_MAX } } })),
    (page) => page.accessRules,
  );
}

export const rulesOfQuery = (subjects: readonly string[]) =>
  queryOptions({
    queryKey: ["access", "rules-of", [...subjects].sort()],
    queryFn: () => allRules({ subjectIds: subjects.join(",") }),
    enabled: subjects.length > 0,
    placeholderData: keepPreviousData,
    staleTime: 0,
  });

export const groupRulesQuery = queryOptions({
  queryKey: ["access", "group-rules"],
  queryFn: () => allRules({ subjectType: "group" }),
  staleTime: 0,
});

export type ProgramKind = "app" | "service-account";
const PROGRAMS = { app: "/api/v1/apps", "service-account": "/api/v1/service-accounts" } as const;

export function programPath(kind: ProgramKind) {
  return PROGRAMS[kind];
}

export const programsQuery = (kind: ProgramKind) =>
  queryOptions({
    queryKey: ["access", kind],
    queryFn: async () => {
      const all: Schema<"Application">[] = [];
      for (;;) {
        const query = { offset: all.length, limit: PAGE_MAX };
        const page = (await got(api.GET(PROGRAMS[kind], { params: { query } }))) as Schema<"Application">[];
        all.push(...page);
        if (page.length < PAGE_MAX) return all;
      }
    },
    staleTime: 0,
  });

/** Users that fit a word, the first of them. */
export const userSearchQuery = (search: string) =>
  queryOptions({
    queryKey: ["access", "user-search", search],
    queryFn: () =>
      got(api.GET("/api/v1/users", { params: { query: { limit: 25, ...(search ? { search } : {}) } } })) as Promise<
        Schema<"User">[]
      >,
    placeholderData: keepPreviousData,
    staleTime: 0,
  });

/** Reads everything of this page again. */
export function useReread(): () => Promise<void> {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: ["access"] });
}

export interface Choice {
  value: string;
  label: string;
}

/** The places that rules can be for, by type. */
export function usePlaces(): {
  choices: (type: ScopeType) => Choice[];
  place: (type: ScopeType, id: string) => Place;
} {
  const projects = useQuery(projectsQuery).data;
  const departments = useQuery(departmentsQuery).data;
  const clusters = useQuery(clustersQuery).data;
  return useMemo(() => {
    const choices = (type: ScopeType): Choice[] => {
      if (type === "project") return (projects ?? []).map((each) => ({ value: each.id, label: each.name }));
      if (type === "department") return (departments ?? []).map((each) => ({ value: each.id, label: each.name }));
      if (type === "cluster") return (clusters ?? []).map((each) => ({ value: each.uuid, label: each.name }));
      return [];
    };
    const place = (type: ScopeType, id: string): Place => {
      const project = type === "project" ? projects?.find((each) => each.id === id) : undefined;
      return { type, id, department: project?.parentId ?? undefined, cluster: project?.clusterId ?? undefined };
    };
    return { choices, place };
  }, [projects, departments, clusters]);
}

export function bySubject(rules: readonly Schema<"AccessRule">[]): Map<string, Schema<"AccessRule">[]> {
  const found = new Map<string, Schema<"AccessRule">[]>();
  for (const each of rules) found.set(each.subjectId, [...(found.get(each.subjectId) ?? []), each]);
  return found;
}
