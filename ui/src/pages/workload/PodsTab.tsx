import { Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { Empty, Failed, Loading } from "@/components/states";
import { bytes, percent, UNKNOWN } from "@/model/format";
import { text } from "@/text/workload";
import { measuredQuery, type Pod, podsQuery, type Workload } from "./queries";
import classes from "./Workload.module.css";
import { WorkloadDevices } from "./WorkloadDevices";

const words = text.pods;
const HEADERS = [
  words.pod,
  words.phase,
  words.node,
  words.image,
  words.devices,
  words.utilization,
  words.gpuMemory,
  words.cpu,
  words.memory,
  words.progress,
  "",
];

const NUMBERS = new Set([words.utilization, words.gpuMemory, words.cpu, words.memory, words.progress]);

/** Its present pods with what was last measured of each, and its devices. */
export function PodsTab({ workload }: { workload: Workload }) {
  const query = useQuery(podsQuery(workload.id));
  const measured = useQuery(measuredQuery(workload.id)).data;
  if (query.data === undefined)
    return query.isError ? <Failed error={query.error} onRetry={() => void query.refetch()} /> : <Loading rows={4} />;
  return (
    <>
      <Card title={words.title} note={String(query.data.length)} flush>
        {query.data.length === 0 ? (
          <Empty title={words.none} />
        ) : (
          <Table.ScrollContainer minWidth={900}>
            <Table fz="sm" verticalSpacing={6}>
              <Table.Thead>
                <Table.Tr>
                  {HEADERS.map((each) => (
                    <Table.Th key={each} className={classes.nowrap} ta={NUMBERS.has(each) ? "right" : "left"}>
                      {each}
                    </Table.Th>
                  ))}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {query.data.map((each) => (
                  <Row key={each.id} pod={each} measured={measured?.pods.find((one) => one.id === each.id)} />
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Card>
      <Card title={words.deviceTitle}>
        <WorkloadDevices workload={workload} {...(measured === undefined ? {} : { measured })} />
        {(workload.allocatedResources?.gpu ?? 0) === 0 && <p className={classes.hint}>{words.noGpu}</p>}
      </Card>
    </>
  );
}

function Row({ pod, measured }: { pod: Pod; measured?: Schema<"MeasuredPod"> | undefined }) {
  return (
    <Table.Tr>
      <Table.Td className={classes.nowrap}>{pod.name}</Table.Td>
      <Table.Td>{pod.phase}</Table.Td>
      <Table.Td className={classes.nowrap}>
        {pod.node ? (
          <Link to="/nodes/$node" params={{ node: pod.node }}>
            {pod.node}
          </Link>
        ) : (
          UNKNOWN
        )}
      </Table.Td>
      <Table.Td>{pod.containers.map((each) => each.image).join(", ")}</Table.Td>
      <Table.Td>{deviceWords(pod, measured)}</Table.Td>
      <Table.Td ta="right">{percent(measured?.gpuUtilization)}</Table.Td>
      <Table.Td ta="right" className={classes.nowrap}>
        {bytes(measured?.gpuMemoryBytes)}
      </Table.Td>
      <Table.Td ta="right">{measured?.cpuCores?.toFixed(2) ?? UNKNOWN}</Table.Td>
      <Table.Td ta="right" className={classes.nowrap}>
        {bytes(measured?.memoryBytes)}
      </Table.Td>
      <Table.Td ta="right">{percent(measured?.progressPercent ?? pod.progressPercent)}</Table.Td>
      <Table.Td className={classes.nowrap}>
        <Link to="." search={{ tab: "log", pod: pod.id } as never}>
          {words.log}
        </Link>
        {pod.phase === "running" && (
          <>
            {" · "}
            <Link to="." search={{ tab: "terminal", pod: pod.name } as never}>
              {words.terminal}
            </Link>
          </>
        )}
      </Table.Td>
    </Table.Tr>
  );
}

/** `2 (31%), 3 (0%)` */
function deviceWords(pod: Pod, measured: Schema<"MeasuredPod"> | undefined): string {
  const all = pod.devices ?? [];
  if (all.length === 0) return UNKNOWN;
  return all
    .map((index) => {
      const use = measured?.devices.find((each) => each.index === index)?.utilization;
      return use == null ? String(index) : `${index} (${percent(use)})`;
    })
    .join(", ");
}
