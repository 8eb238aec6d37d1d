import { UnstyledButton } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { chooseCluster } from "@/frame/cluster";
import { gpus, moment, percent, UNKNOWN } from "@/model/format";
import { text } from "@/text/overview";
import { figuresQuery, useMeasuredToo } from "./questions";
import classes from "./tables.module.css";

const { clusters: words } = text;
const CONNECTED = "Connected";
/** Below this, with GPUs free, a cluster counts as under-used. */
const UNDER_USED = 0.5;

/** One row for each cluster, where there are several: how it is, and what is free there. */
export function ClustersCard({ clusters }: { clusters: Schema<"ClusterAnswer">[] }) {
  useMeasuredToo("figures");
  const answers = useQueries({
    queries: clusters.map((each) => figuresQuery({ cluster: each.uuid, pool: undefined, department: undefined })),
  });
  return (
    <Card title={words.title} flush>
      <div className={classes.scroll}>
        <table className={classes.table}>
          <caption className="visually-hidden">{words.title}</caption>
          <thead>
            <tr>
              <th scope="col">{words.columns.cluster}</th>
              <th scope="col">{words.columns.state}</th>
              {(["nodes", "gpus", "allocated", "free", "utilization", "running", "pending"] as const).map((each) => (
                <th
                  key={each}
                  scope="col"
                  className={`${classes.number} ${each === "nodes" || each === "gpus" ? classes.wide : ""}`}
                >
                  {words.columns[each]}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {clusters.map((each, number) => (
              <ClusterRow key={each.uuid} cluster={each} figures={answers[number]?.data} />
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

interface RowProps {
  cluster: Schema<"ClusterAnswer">;
  figures: Schema<"OverviewFigures"> | undefined;
}

function ClusterRow({ cluster, figures }: RowProps) {
  const isAway = cluster.status.state !== CONNECTED;
  const isUnderUsed =
    !isAway && figures !== undefined && figures.gpus > 0 && figures.allocatedGpus / figures.gpus < UNDER_USED;
  const cells: [string | number, boolean][] =
    figures === undefined
      ? Array.from({ length: 7 }, (_, number) => [UNKNOWN, number < 2])
      : [
          [`${figures.readyNodes} / ${figures.nodes}`, true],
          [figures.gpus, true],
          [gpus(figures.allocatedGpus), false],
          [figures.freeGpus, false],
          [percent(figures.gpuUtilization), false],
          [figures.running, false],
          [figures.pending, false],
        ];
  return (
    <tr>
      <td title={cluster.name}>
        <UnstyledButton
          onClick={() => chooseCluster(cluster.uuid)}
          title={words.open(cluster.name)}
          c="var(--accent)"
          fz="inherit"
        >
          {cluster.name}
        </UnstyledButton>
        {isUnderUsed && <span className={classes.quietMark}>{words.underUsed}</span>}
      </td>
      <td title={words.seen(moment(cluster.lastLiveness))}>
        {isAway && cluster.lastLiveness != null ? (
          <span className={classes.mark}>{cluster.status.state}</span>
        ) : (
          (words.states[cluster.status.state] ?? cluster.status.state)
        )}
      </td>
      {cells.map(([value, isWide], number) => (
        <td key={number} className={`${classes.number} ${isWide ? classes.wide : ""}`}>
          {value}
        </td>
      ))}
    </tr>
  );
}
