/** Draining, cordoning and marking nodes. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { ApiError, api, got, type Schema } from "@/api/client";
import { ifMatch, tagged } from "@/api/tagged";
import { done, refused } from "@/components/answers";
import { text } from "@/text/nodes";
import { overridesOf } from "./nodeState";

type Overrides = Required<Schema<"NodeOverridesRequest">>;

export const nodeQuery = (name: string, cluster?: string) => ({
  queryKey: ["nodes", "one", name, cluster ?? ""],
  queryFn: () =>
    tagged(
      api.GET("/api/v1/nodes/{node}", {
        params: { path: { node: name }, query: cluster === undefined ? {} : { clusterId: cluster } },
      }),
    ),
});

interface Marking {
  node: Pick<Schema<"NodeAnswer">, "name" | "clusterUuid">;
  change: (before: Overrides) => Overrides;
  words: string;
}

/** Reads the node, changes what is set on it and sends all of it. Refused with 412 if it was changed in between.
 * `cluster` tells nodes of the same name apart. */
export async function markNode(name: string, cluster: string | undefined, change: Marking["change"]): Promise<void> {
  const { value, tag } = await nodeQuery(name, cluster).queryFn();
  await got(
    api.PUT("/api/v1/nodes/{node}/overrides", {
      params: { path: { node: name }, query: { clusterId: value.clusterUuid }, header: ifMatch(tag) },
      body: change(overridesOf(value)),
    }),
  );
}

export function useMark(onDone?: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ node, change }: Marking) => markNode(node.name, node.clusterUuid, change),
    onSuccess: (_, { words }) => {
      done(words);
      for (const key of ["nodes", "devices", "shares", "pods"]) void queries.invalidateQueries({ queryKey: [key] });
      onDone?.();
    },
    onError: (error) =>
      refused(error, error instanceof ApiError && error.status === 412 ? text.actions.conflict : undefined),
  });
}
