/** What the first steps ask the server. */
import { queryOptions } from "@tanstack/react-query";
import { api, got, type Schema } from "@/api/client";
import { filterBy } from "@/model/filters";
import { ENDED } from "@/model/status";
import { IMAGE, NOTEBOOK_NAME } from "./notebook";

/** The latest notebook that the caller opened here and that has not ended. */
export const notebookQuery = (username: string) =>
  queryOptions({
    queryKey: ["workloads", "notebook", username],
    enabled: username !== "",
    queryFn: async (): Promise<Schema<"Workload"> | null> => {
      const filters = filterBy([
        { field: "submittedBy", operator: "==", value: username },
        { field: "type", operator: "==", value: "Workspace" },
        { field: "name", operator: "=^", value: NOTEBOOK_NAME },
      ]);
      const page = await got(
        api.GET("/api/v1/workloads", {
          params: {
            query: {
              ...(filters === undefined ? {} : { filterBy: filters }),
              sortBy: "createdAt",
              sortOrder: "desc",
              limit: 5,
            },
          },
        }),
      );
      const found = page.workloads.find(
        (each) =>
          each.images?.includes(IMAGE) &&
          each.phase !== "Deleting" &&
          (each.phase === "Failed" || !ENDED.includes(each.phase)),
      );
      if (found === undefined) return null;
      const path = { workload_id: found.id };
      return got(api.GET("/api/v1/workloads/{workload_id}", { params: { path } }));
    },
  });

/** What its pods report: a placeholder says that it is one. */
export const notebookSaysQuery = (id: string) =>
  queryOptions({
    queryKey: ["pods", "notebook", id],
    queryFn: async () => {
      const path = { workload_id: id };
      const answer = await got(api.GET("/api/v1/workloads/{workload_id}/pods", { params: { path } }));
      return answer.pods.find((each) => each.current)?.parameters?.notebook ?? null;
    },
  });
