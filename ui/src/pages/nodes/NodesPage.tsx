import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, got, type Schema } from "@/api/client";
import { allNodes, clustersQuery, devicesQuery, poolsQuery } from "@/api/queries";
import { Card } from "@/components/Card";
import { Grid } from "@/components/Grid";
import { DeviceStrip } from "@/components/gpuMap/DeviceStrip";
import { listQuery, useListState } from "@/components/listState";
import { Page } from "@/components/Page";
import { Empty } from "@/components/states";
import { useChosenCluster } from "@/frame/cluster";
import type { ListState } from "@/model/filters";
import { gpus, percent, UNKNOWN } from "@/model/format";
import { text } from "@/text/nodes";
import { type NodeDialogs, NodeMenu, useNodeDialogs } from "./NodeActions";
import { NodeStatus } from "./NodeStatus";
import { type Node, type NodeFacts, nodeColumns } from "./nodeColumns";
import classes from "./nodes.module.css";

/** Is the metal well? */
export function NodesPage() {
  const [state, setState] = useListState();
  const navigate = useNavigate();
  const query = useNodes(state);
  const [dialogs, shown] = useNodeDialogs();
  const facts = useFacts(state, dialogs);
  const columns = useMemo(() => nodeColumns(facts), [facts]);
  const pools = useQuery(poolsQuery).data?.map((each) => each.name) ?? [];
  const open = (node: Node) =>
    void navigate({ to: "/nodes/$node", params: { node: node.name }, search: { cluster: node.clusterUuid } } as never);
  return (
    <Page title={text.title} lead={<Lead />}>
      <Card flush label={text.title}>
        <Grid
          label={text.title}
          rows={query.data?.nodes}
          total={query.data?.total ?? null}
          hasMore={query.data?.next != null}
          error={query.error}
          onRetry={() => void query.refetch()}
          columns={columns}
          idOf={(node) => `${node.clusterUuid}/${node.name}`}
          nameOf={(node) => node.name}
          state={state}
          onState={setState}
          onOpen={open}
          views="nodes"
          allRows={shownNodes(state)}
          filterFields={[
            {
              field: "status",
              label: text.grid.state,
              choices: ["Ready", "NotReady", "Unknown"],
              operators: ["==", "!="],
            },
            { field: "nodePool", label: text.grid.pool, choices: pools, operators: ["==", "!="] },
            { field: "gpuType", label: text.grid.type, operators: ["=@", "==", "!="] },
            { field: "gpuCount", label: text.grid.count, operators: [">=", "<=", "=="] },
            { field: "allocatedGPU", label: text.grid.allocated, operators: [">=", "<="] },
            { field: "pods", label: text.grid.pods, operators: [">=", "<="] },
          ]}
          card={(node) => <NodeCard node={node} facts={facts} />}
          empty={
            <Empty
              title={text.none}
              hint={text.noneHint}
              action={
                <Button component={Link} to="/clusters">
                  {text.addCluster}
                </Button>
              }
            />
          }
        />
      </Card>
      {shown}
    </Page>
  );
}

function Lead() {
  const chosen = useChosenCluster();
  const query = useQuery({
    queryKey: ["figures", "nodes", chosen?.uuid ?? ""],
    queryFn: () => got(api.GET("/api/v1/overview/figures", { params: { query: clusterOnly(chosen?.uuid) } as never })),
  });
  if (query.data === undefined) return null;
  const { nodes, readyNodes, gpus: all, freeGpus } = query.data as Schema<"OverviewFigures">;
  return <>{text.lead(nodes, readyNodes, all, freeGpus)}</>;
}

const clusterOnly = (cluster: string | undefined) => (cluster === undefined ? {} : { clusterId: cluster });

function parametersOf(state: ListState, cluster: string | undefined) {
  const all = listQuery(state);
  const own = cluster === undefined ? [] : [`clusterId==${cluster}`];
  const filterBy = [...own, ...(all.filterBy === undefined ? [] : [all.filterBy])].join(",");
  return { ...all, ...(filterBy === "" ? {} : { filterBy }) };
}

function useNodes(state: ListState) {
  const cluster = useChosenCluster()?.uuid;
  const params = parametersOf(state, cluster);
  return useQuery({
    queryKey: ["nodes", "list", params],
    placeholderData: keepPreviousData,
    queryFn: async () => {
      const { filterBy, search } = params;
      const counted = { ...(filterBy ? { filterBy } : {}), ...(search ? { search } : {}) };
      const [page, count] = await Promise.all([
        got(api.GET("/api/v1/nodes", { params: { query: params } })),
        got(api.GET("/api/v1/nodes/count", { params: { query: counted } })),
      ]);
      return { ...page, total: (count as Schema<"Count">).count };
    },
  });
}

function shownNodes(state: ListState): () => Promise<Node[]> {
  const { offset: _offset, limit: _limit, ...which } = listQuery(state);
  return () => allNodes({ ...which, measured: "devices" });
}

const DEVICE_FIELDS = ["name", "nodePool", "clusterId", "status", "gpuType", "gpuCount"];

/** Devices of the nodes that are shown. Where devices cannot be listed in the same order, those of all nodes. */
function useDevices(state: ListState) {
  const cluster = useChosenCluster()?.uuid;
  const params = parametersOf(state, cluster);
  const isSame =
    (state.sort === null || DEVICE_FIELDS.includes(state.sort)) &&
    state.filters.every((each) => DEVICE_FIELDS.includes(each.field));
  const some = useQuery({
    queryKey: ["devices", "page", params],
    enabled: isSame,
    placeholderData: keepPreviousData,
    queryFn: () => got(api.GET("/api/v1/devices", { params: { query: params } })),
  });
  const all = useQuery({ ...devicesQuery, enabled: !isSame });
  return (isSame ? some.data : all.data) as Schema<"DevicePage"> | undefined;
}

function useFacts(state: ListState, dialogs: NodeDialogs): NodeFacts {
  const { drain, edit, devices: openDevices } = dialogs; // the ways to open them stay the same
  const cluster = useChosenCluster()?.uuid;
  const params = parametersOf(state, cluster);
  const measured = useQuery({
    queryKey: ["measured", "nodes", params],
    placeholderData: keepPreviousData,
    queryFn: () => got(api.GET("/api/v1/nodes", { params: { query: { ...params, measured: "devices" } } })),
  }).data;
  const devices = useDevices(state);
  const clusters = useQuery(clustersQuery).data;
  return useMemo(() => {
    const key = (node: Node) => `${node.clusterUuid}/${node.name}`;
    const known = new Map(measured?.nodes.map((each) => [key(each), each.measured]));
    const names = new Map(clusters?.map((each) => [each.uuid, each.name]));
    return {
      measured: (node) => node.measured ?? known.get(key(node)),
      cluster: (node) => names.get(node.clusterUuid) ?? node.clusterUuid,
      actions: (node) => <NodeMenu node={node} dialogs={{ drain, edit, devices: openDevices }} />,
      strip: (node) => {
        if (devices === undefined || node.gpuInfo.gpuCount === 0) return UNKNOWN;
        const number = devices.clusters.findIndex((each) => each.id === node.clusterUuid);
        const nodes = devices.nodes.filter((each) => each.name === node.name && each.cluster === number);
        return (
          <button
            type="button"
            className={classes.strip}
            onClick={() => openDevices(node)}
            aria-label={text.grid.open(node.name)}
          >
            <DeviceStrip page={{ ...devices, nodes }} node={node.name} />
          </button>
        );
      },
    };
  }, [measured, devices, clusters, drain, edit, openDevices]);
}

function NodeCard({ node, facts }: { node: Node; facts: NodeFacts }) {
  return (
    <div className={classes.card}>
      <div className={classes.cardHead}>
        <Link to="/nodes/$node" params={{ node: node.name } as never} search={{ cluster: node.clusterUuid } as never}>
          {node.name}
        </Link>
        <NodeStatus node={node} plain />
        {facts.actions(node)}
      </div>
      {facts.strip(node)}
      <span className={classes.second}>
        {[
          node.gpuInfo.gpuType,
          node.nodePool,
          `${gpus(node.gpuInfo.allocated)} / ${node.gpuInfo.gpuCount}`,
          `${percent(facts.measured(node)?.gpuUtilization)} ${text.grid.util}`,
        ]
          .filter((each) => each !== "")
          .join(" · ")}
      </span>
    </div>
  );
}
