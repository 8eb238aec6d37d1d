/** Figures of node pools, by their names. */
import { useQuery } from "@tanstack/react-query";
import { api, got, type Schema } from "@/api/client";

const TYPES = [
  "TOTAL_GPUS",
  "ALLOCATED_GPUS",
  "TOTAL_GPU_MEMORY_BYTES",
  "TOTAL_CPU_CORES",
  "ALLOCATED_CPU_CORES",
  "TOTAL_CPU_MEMORY_BYTES",
  "ALLOCATED_CPU_MEMORY_BYTES",
] as const;
export type Figure = (typeof TYPES)[number];
export type PoolFigures = Map<string, Partial<Record<Figure, number>>>;

function groupOf(value: Schema<"TelemetryValue">): string {
  return value.groups?.[0]?.value ?? "";
}

/** In one cluster, or in all. */
export function usePoolFigures(cluster: string | undefined): PoolFigures | undefined {
  return useQuery({
    queryKey: ["figures", "pools", cluster ?? ""],
    queryFn: async () => {
      const found: PoolFigures = new Map();
      const answers = await Promise.all(
        TYPES.map((telemetryType) =>
          got(
            api.GET("/api/v1/nodes/telemetry", {
              params: {
                query: { telemetryType, groupBy: ["Nodepool"], ...(cluster ? { clusterId: cluster } : {}) } as never,
              },
            }),
          ),
        ),
      );
      answers.forEach((answer, number) => {
        for (const each of (answer as Schema<"Telemetry">).values) {
          const pool = groupOf(each);
          found.set(pool, { ...found.get(pool), [TYPES[number]!]: Number(each.value) });
        }
      });
      return found;
    },
  }).data;
}

/** Workloads that hold something in each pool. */
export function usePoolWorkloads(): Map<string, number> | undefined {
  return useQuery({
    queryKey: ["workloads", "by-pool"],
    queryFn: async () => {
      const answer = (await got(
        api.GET("/api/v1/workloads/telemetry", {
          params: { query: { telemetryType: "WORKLOADS_COUNT", groupBy: ["CurrentNodepools"] } as never },
        }),
      )) as Schema<"Telemetry">;
      return new Map(answer.values.map((each) => [groupOf(each), Number(each.value)]));
    },
  }).data;
}
