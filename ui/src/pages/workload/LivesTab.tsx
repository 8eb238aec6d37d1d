import { Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Card } from "@/components/Card";
import { Elapsed, Moment } from "@/components/Moment";
import { Empty, Failed, Loading } from "@/components/states";
import { UNKNOWN } from "@/model/format";
import { text } from "@/text/workload";
import { livesQuery, type Pod, type Workload } from "./queries";
import classes from "./Workload.module.css";

const words = text.lives;
/** Rows that are drawn; a workload with more pods than that is better read by its log and events. */
const ROWS_MAX = 500;

/** Every pod it had and has: where it ran, how long, and why it ended. */
export function LivesTab({ workload }: { workload: Workload }) {
  const query = useQuery(livesQuery(workload.id));
  if (query.data === undefined)
    return query.isError ? <Failed error={query.error} onRetry={() => void query.refetch()} /> : <Loading rows={6} />;
  const lives = [...query.data].sort((a, b) => b.incarnation - a.incarnation || a.index - b.index);
  const columns = [
    words.life,
    words.pod,
    words.phase,
    words.node,
    words.devices,
    words.created,
    words.started,
    words.ran,
    words.exit,
    words.why,
    "",
  ];
  return (
    <Card title={words.title} note={String(lives.length)} flush>
      {lives.length === 0 ? (
        <Empty title={words.empty} />
      ) : (
        <Table.ScrollContainer minWidth={900}>
          <Table fz="sm" verticalSpacing={6}>
            <Table.Thead>
              <Table.Tr>
                {columns.map((each) => (
                  <Table.Th key={each} className={classes.nowrap}>
                    {each}
                  </Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {lives.slice(0, ROWS_MAX).map((each) => (
                <Row key={each.id} pod={each} workload={workload} />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Card>
  );
}

/** Why a pod is no more: its cause, what the engine said, and what went wrong. */
function whyEnded(pod: Pod): string {
  return [...new Set([pod.outcome ?? "", pod.cause ?? "", pod.detail, pod.problem])]
    .filter((each) => each !== "")
    .join(" · ");
}

function reported(pod: Pod): string {
  return Object.entries({ ...pod.metrics, ...pod.parameters })
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

function Row({ pod, workload }: { pod: Pod; workload: Workload }) {
  const hasEnded = pod.phase === "ended";
  const ended = pod.completedAt ?? (hasEnded ? pod.since : null);
  return (
    <Table.Tr>
      <Table.Td>{pod.incarnation + 1}</Table.Td>
      <Table.Td className={classes.nowrap}>{pod.name}</Table.Td>
      <Table.Td className={classes.nowrap}>
        {pod.phase}
        {pod.current && !hasEnded && <span className={classes.currentMark}>{words.current}</span>}
      </Table.Td>
      <Table.Td className={classes.nowrap}>
        {pod.node ? (
          <Link to="/nodes/$node" params={{ node: pod.node }}>
            {pod.node}
          </Link>
        ) : (
          UNKNOWN
        )}
      </Table.Td>
      <Table.Td>{(pod.devices ?? []).join(", ") || UNKNOWN}</Table.Td>
      <Table.Td className={classes.nowrap}>
        <Moment at={pod.createdAt} />
      </Table.Td>
      <Table.Td className={classes.nowrap}>
        <Moment at={pod.startedAt} />
      </Table.Td>
      <Table.Td className={classes.nowrap}>
        {pod.startedAt ? <Elapsed from={pod.startedAt} to={ended} /> : UNKNOWN}
      </Table.Td>
      <Table.Td>{pod.exitCode ?? UNKNOWN}</Table.Td>
      <Table.Td>
        {whyEnded(pod)}
        {reported(pod) !== "" && <div className={classes.hint}>{`${words.reported}: ${reported(pod)}`}</div>}
      </Table.Td>
      <Table.Td>
        <Link
          to="/workloads/$workload"
          params={{ workload: workload.id }}
          search={{ tab: "log", pod: pod.id } as never}
        >
          {words.log}
        </Link>
      </Table.Td>
    </Table.Tr>
  );
}
