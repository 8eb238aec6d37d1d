import { Badge, Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { ApiError, api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { Card } from "@/components/Card";
import { Moment } from "@/components/Moment";
import { Page } from "@/components/Page";
import { ProjectName } from "@/components/ProjectName";
import { StatusBadge } from "@/components/StatusBadge";
import { Empty, Failed, Loaded, Loading } from "@/components/states";
import { wordIn } from "@/model/address";
import { bytes, gpus, UNKNOWN } from "@/model/format";
import table from "@/pages/projects/ProjectPage.module.css";
import { Warning } from "@/pages/projects/Warning";
import { text as frame } from "@/text/frame";
import { text } from "@/text/nodes";
import { DeviceTable, useMeasuredNode } from "./DeviceTable";
import { useNodeWithPods } from "./DrainDialog";
import { useNodeDialogs } from "./NodeActions";
import { NodeCharts } from "./NodeCharts";
import { NodeStatus } from "./NodeStatus";
import { nodeQuery, useMark } from "./nodeMarks";
import { cordoned, drained, isDrained, overridesOf, rolesOf, stateOf, TYPE_LABEL } from "./nodeState";
import classes from "./nodes.module.css";

type Detail = Schema<"NodeDetail">;

/** One node: devices, pods, charts, marks, decisions. */
export function NodePage() {
  const { node: name } = useParams({ strict: false }) as { node: string };
  const { cluster } = useSearch({ strict: false }) as { cluster?: unknown };
  const query = useQuery(nodeQuery(name, wordIn(cluster)));
  if (query.data !== undefined) return <Content node={query.data.value} />;
  return (
    <Page title={name} trail={<Link to="/nodes">{text.trail}</Link>}>
      {query.error instanceof ApiError && query.error.status === 404 ? (
        <Empty title={text.notThere} action={<Link to="/nodes">{text.trail}</Link>} />
      ) : query.isError ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Loading height={400} />
      )}
    </Page>
  );
}

function Content({ node }: { node: Detail }) {
  const [dialogs, shown] = useNodeDialogs();
  const { pods } = useNodeWithPods(node);
  const state = stateOf({ ...node, pods: pods?.length ?? node.pods });
  return (
    <Page
      title={node.name}
      trail={<Link to="/nodes">{text.trail}</Link>}
      chips={
        <>
          <NodeStatus node={{ ...node, pods: pods?.length ?? node.pods }} />
          {node.gpuInfo.simulated && <Badge variant="default">{frame.shared.simulated}</Badge>}
        </>
      }
      lead={[node.gpuInfo.gpuType, node.nodePool].filter(Boolean).join(" · ")}
      actions={<Actions node={node} onDrain={() => dialogs.drain(node)} onEdit={() => dialogs.edit(node)} />}
    >
      {state.withheld.length > 0 && (
        <Warning>{text.withheldWhy(state.withheld.join(", "), node.gpuInfo.withheldBecause)}</Warning>
      )}
      <Card title={text.detail.devices} flush>
        <DeviceTable node={node} />
      </Card>
      <div className={table.columns}>
        <div className={table.main}>
          <Pods node={node} />
        </div>
        <div className={table.side}>
          <Facts node={node} />
          <Decisions node={node} />
        </div>
      </div>
      <NodeCharts node={node} />
      {shown}
    </Page>
  );
}

function Actions({ node, onDrain, onEdit }: { node: Detail; onDrain: () => void; onEdit: () => void }) {
  const mayMark = useMay("node.mark");
  const isHeld = useWritesHeld();
  const mark = useMark();
  if (!mayMark) return null;
  const { actions } = text;
  const isOff = overridesOf(node).cordoned;
  const cordon = () =>
    mark.mutate({
      node,
      change: (all) => cordoned(all, !isOff),
      words: isOff ? actions.done.uncordon(node.name) : actions.done.cordon(node.name),
    });
  const undrain = () =>
    mark.mutate({ node, change: (all) => drained(all, false), words: actions.done.undrain(node.name) });
  return (
    <>
      <Button onClick={onEdit}>{actions.edit}</Button>
      <Button onClick={cordon} disabled={isHeld}>
        {isOff ? actions.uncordon : actions.cordon}
      </Button>
      {isDrained(node) ? (
        <Button onClick={undrain} disabled={isHeld} loading={mark.isPending}>
          {actions.undrain}
        </Button>
      ) : (
        <Button onClick={onDrain} disabled={isHeld}>
          {actions.drain}
        </Button>
      )}
    </>
  );
}

function Facts({ node }: { node: Detail }) {
  const measured = useMeasuredNode(node).data?.measured;
  const { detail, grid } = text;
  const cores = (milli: number) => (milli / 1000).toFixed(1);
  const facts: [string, React.ReactNode][] = [
    [grid.pool, node.nodePool],
    [grid.nodeType, node.labels?.[TYPE_LABEL] ?? UNKNOWN],
    [
      grid.role,
      rolesOf(node)
        .map((each) => text.edit.roleNames[each])
        .join(", ") || UNKNOWN,
    ],
    [grid.allocated, detail.of(gpus(node.gpuInfo.allocated), String(node.gpuInfo.gpuCount))],
    [
      grid.cpuAllocated,
      detail.cores(cores(node.cpuAllocatedMilli), node.cpuMilli == null ? UNKNOWN : cores(node.cpuMilli)),
    ],
    [grid.memoryAllocated, detail.of(bytes(node.memoryAllocatedBytes), bytes(node.memoryBytes))],
    [grid.memoryUsed, bytes(measured?.memoryBytes)],
    [detail.measured, <Moment key="measured" at={measured?.at} />],
    [grid.created, <Moment key="created" at={node.createdAt} />],
    [detail.updated, <Moment key="updated" at={node.updatedAt} />],
  ];
  const labels = Object.entries(node.labels ?? {});
  return (
    <Card title={detail.facts}>
      <dl className={table.facts}>
        {facts.map(([name, value]) => (
          <div key={name} style={{ display: "contents" }}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        <dt>{detail.labels}</dt>
        <dd>
          <Marks marks={labels.map(([key, value]) => `${key}=${value}`)} />
        </dd>
        <dt>{detail.taints}</dt>
        <dd>
          <Marks marks={(node.taints ?? []).map((each) => `${each.key}=${each.value}:${each.effect}`)} />
        </dd>
      </dl>
    </Card>
  );
}

function Marks({ marks }: { marks: string[] }) {
  if (marks.length === 0) return <>{text.detail.none}</>;
  return (
    <ul className={classes.marks}>
      {marks.map((each) => (
        <li key={each}>{each}</li>
      ))}
    </ul>
  );
}

function Pods({ node }: { node: Detail }) {
  const query = useQuery({
    queryKey: ["pods", "list", node.name, node.clusterUuid],
    queryFn: () => {
      const filterBy = `nodeName==${node.name},clusterId==${node.clusterUuid}`;
      return got(api.GET("/api/v1/workloads/pods", { params: { query: { filterBy, limit: 500 } } }));
    },
  });
  const { detail } = text;
  const headers = [detail.pod, detail.status, detail.project, detail.workload, detail.image, detail.created];
  return (
    <Card title={detail.pods} flush>
      <Loaded query={query} rows={4}>
        {(page) =>
          page.pods.length === 0 ? (
            <Empty title={detail.noPods} />
          ) : (
            <div className={table.scroll}>
              <table className={table.table}>
                <thead>
                  <tr>
                    {headers.map((each) => (
                      <th key={each} scope="col">
                        {each}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {page.pods.map((each) => (
                    <PodRow key={each.id} pod={each} />
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </Card>
  );
}

function PodRow({ pod }: { pod: Schema<"PodItem"> }) {
  const phase = pod.k8sPhase || pod.phase;
  return (
    <tr>
      <td title={pod.name}>{pod.name}</td>
      <td>
        <StatusBadge phase={phase} plain />
      </td>
      <td>
        <ProjectName project={pod.projectName} />
      </td>
      <td>
        <Link to="/workloads/$workload" params={{ workload: pod.workloadId } as never}>
          {pod.workloadName}
        </Link>
      </td>
      <td>{pod.containers?.[0]?.image ?? UNKNOWN}</td>
      <td>
        <Moment at={pod.createdAt} />
      </td>
    </tr>
  );
}

const LATEST = 8;

function Decisions({ node }: { node: Detail }) {
  const query = useQuery({
    queryKey: ["decisions", "node", node.clusterUuid],
    queryFn: () => {
      const filterBy = `clusterId==${node.clusterUuid}`;
      return got(api.GET("/api/v1/decisions", { params: { query: { filterBy, limit: 200 } } }));
    },
  });
  return (
    <Card title={text.detail.decisions} aside={<Link to="/decisions">{text.detail.allDecisions}</Link>}>
      <Loaded query={query} rows={4}>
        {(page) => {
          const here = page.decisions.filter((each) => each.nodes.includes(node.name)).slice(0, LATEST);
          if (here.length === 0) return <p>{text.detail.noDecisions}</p>;
          return (
            <ul className={classes.feed}>
              {here.map((each) => (
                <li key={each.id}>
                  <Moment at={each.at} />{" "}
                  <Link to="/workloads/$workload" params={{ workload: each.workloadId } as never}>
                    {each.workloadName}
                  </Link>{" "}
                  {each.message}
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </Card>
  );
}
