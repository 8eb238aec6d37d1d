/** Names of what there is now, for forms and sentences. */
import { useQuery } from "@tanstack/react-query";
import { api, got, type Schema } from "@/api/client";
import { departmentsQuery, nodesQuery, projectsQuery, sharesQuery } from "@/api/queries";

export interface Job {
  id: string;
  name: string;
  project: string;
  gpus: number;
}

export interface Live {
  projects: string[];
  departments: string[];
  nodes: string[];
  jobs: Job[];
  pools: string[];
  shares: Schema<"Share">[];
  capacity: number;
  isLoaded: boolean;
}

const JOBS_MAX = 500;
/** What the planner knows: what runs or waits. */
const ACTIVE = "phase!=Completed,phase!=Failed,phase!=Stopped";

export function useLive(clusterId: string | undefined, pool: string | undefined): Live {
  const projects = useQuery(projectsQuery).data;
  const departments = useQuery(departmentsQuery).data;
  const shares = useQuery({ ...sharesQuery(clusterId), enabled: clusterId !== undefined }).data;
  const nodes = useQuery(nodesQuery).data;
  const jobs = useQuery({
    queryKey: ["workloads", "active", clusterId],
    enabled: clusterId !== undefined,
    queryFn: () =>
      got(
        api.GET("/api/v1/workloads", {
          params: { query: { limit: JOBS_MAX, filterBy: `${ACTIVE},clusterId==${clusterId}` } },
        }),
      ),
  }).data;
  const pools = shares?.pools.map((each) => each.nodePool) ?? [];
  const shown = pool ?? pools[0];
  return {
    projects: (projects ?? []).filter((each) => each.clusterId === clusterId).map((each) => each.name),
    departments: (departments ?? []).filter((each) => each.clusterId === clusterId).map((each) => each.name),
    nodes: (nodes ?? [])
      .filter((each) => each.clusterUuid === clusterId && (shown === undefined || each.nodePool === shown))
      .map((each) => each.name),
    jobs: (jobs?.workloads ?? []).map((each) => ({
      id: each.id,
      name: each.name,
      project: each.projectName,
      gpus: each.workloadRequestedResources?.gpu?.request ?? 0,
    })),
    pools,
    shares: (shares?.shares ?? []).filter((each) => each.nodePool === shown),
    capacity: shares?.pools.find((each) => each.nodePool === shown)?.capacity ?? 0,
    isLoaded: projects !== undefined && shares !== undefined && nodes !== undefined && jobs !== undefined,
  };
}
