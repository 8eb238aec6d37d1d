/** Figures of projects that stand in columns of their own: read only while the column is shown. */
import { useQuery } from "@tanstack/react-query";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";

function byProject(telemetry: Schema<"Telemetry">): Map<string, number> {
  return new Map(
    telemetry.values.map((each) => [
      each.groups?.find((group) => group.key === "ProjectId")?.value ?? "",
      Number(each.value),
    ]),
  );
}

type Type = "CPU_ALLOCATION" | "MEMORY_ALLOCATION";

/** Thousandths of cores, or MB. */
export function useAllocation(type: Type, isShown: boolean): Map<string, number> | undefined {
  return useQuery({
    queryKey: ["projects", "telemetry", type],
    enabled: isShown,
    queryFn: async () =>
      byProject(
        (await got(
          api.GET("/api/v1/org-unit/projects/telemetry", {
            params: { query: { telemetryType: type, groupBy: ["ProjectId"] } as never },
          }),
        )) as Schema<"Telemetry">,
      ),
  }).data;
}

export function useRunning(): Map<string, number> | undefined {
  return useQuery({
    queryKey: ["workloads", "running-by-project"],
    queryFn: async () =>
      byProject(
        (await got(
          api.GET("/api/v1/workloads/telemetry", {
            params: {
              query: { telemetryType: "WORKLOADS_COUNT", groupBy: ["ProjectId"], filterByPhases: ["Running"] } as never,
            },
          }),
        )) as Schema<"Telemetry">,
      ),
  }).data;
}

/** Who has a role in each project, by the names of projects. */
export function useSubjects(isShown: boolean): Map<string, string[]> | undefined {
  const mayRead = useMay("access-rule.read");
  return useQuery({
    queryKey: ["projects", "subjects"],
    enabled: isShown && mayRead,
    queryFn: async () => {
      const page = await got(
        api.GET("/api/v1/authorization/access-rules", { params: { query: { scopeType: "project", limit: 500 } } }),
      );
      const names = new Map<string, string[]>();
      for (const each of page.accessRules) {
        const known = names.get(each.scopeName) ?? [];
        names.set(each.scopeName, [...known, each.subjectName || each.subjectId]);
      }
      return names;
    },
  }).data;
}
