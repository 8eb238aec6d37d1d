import { Button, Drawer, Group } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay, IconTrash } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { Elapsed, Moment } from "@/components/Moment";
import { ProjectName } from "@/components/ProjectName";
import { WhyPanel } from "@/components/WhyPanel";
import { bytes, percent, UNKNOWN } from "@/model/format";
import { isWaiting } from "@/model/status";
import { mayDelete, mayResume, maySuspend, resume, suspend } from "@/model/workloadActions";
import { text } from "@/text/workloads";
import { endOf, gpuWords } from "./columns";
import type { Row } from "./reading";
import { StatusCell } from "./StatusCell";
import { WorkloadLinks } from "./WorkloadLinks";
import classes from "./Workloads.module.css";

const words = text.columns;

function factsOf(row: Row): [string, ReactNode][] {
  return [
    [words.project, <ProjectName key="p" project={row.projectId} name={row.projectName} />],
    [words.user, row.submittedBy],
    [words.type, row.type],
    [words.gpus, gpuWords(row)],
    [words.pods, text.podsCount(row.runningPods, row.requestedPods?.number ?? 1)],
    [words.node, (row.currentNodes ?? []).join(", ") || UNKNOWN],
    [words.createdAt, <Moment key="c" at={row.createdAt} />],
    [words.runTime, row.startedAt ? <Elapsed key="r" from={row.startedAt} to={endOf(row)} /> : UNKNOWN],
    [words.utilization, percent(row.measured?.gpuUtilization)],
    [words.gpuMemory, bytes(row.measured?.gpuMemoryBytes)],
    [words.progress, percent(row.measured?.progressPercent)],
    [words.image, (row.images ?? []).join(", ") || UNKNOWN],
    [words.urls, <WorkloadLinks key="u" urls={row.urls ?? []} />],
  ];
}

/** One workload beside the list: why it waits or how it runs, and what can be done. */
export function WorkloadPane({
  row,
  onClose,
  onDelete,
}: {
  row: Row | null;
  onClose: () => void;
  onDelete: (row: Row) => void;
}) {
  const isHeld = useWritesHeld();
  const mayChange = useMay("workload.update") && !isHeld;
  const mayRemove = useMay("workload.delete") && !isHeld;
  return (
    <Drawer
      opened={row !== null}
      onClose={onClose}
      position="right"
      size={520}
      title={row?.name ?? text.paneTitle}
      overlayProps={{ backgroundOpacity: 0.12 }}
    >
      {row !== null && (
        <div className={classes.pane}>
          {isWaiting(row) ? <WhyPanel workload={row} /> : <StatusCell row={row} lines={2} />}
          <Group gap="xs">
            <Button component={Link} to={`/workloads/${row.id}`}>
              {text.open}
            </Button>
            <Button component={Link} to={`/workloads/${row.id}`} search={{ tab: "log" } as never}>
              {text.log}
            </Button>
            {maySuspend(row) && (
              <Button
                leftSection={<IconPlayerPause size={14} />}
                disabled={!mayChange}
                onClick={() => void suspend([row.id])}
              >
                {text.suspend}
              </Button>
            )}
            {mayResume(row) && (
              <Button
                leftSection={<IconPlayerPlay size={14} />}
                disabled={!mayChange}
                onClick={() => void resume([row.id])}
              >
                {text.resume}
              </Button>
            )}
            {mayDelete(row) && (
              <Button
                leftSection={<IconTrash size={14} />}
                c="var(--failed)"
                disabled={!mayRemove}
                onClick={() => onDelete(row)}
              >
                {text.delete}
              </Button>
            )}
          </Group>
          <dl className={classes.facts}>
            {factsOf(row).map(([name, value]) => (
              <Fact key={name} name={name} value={value} />
            ))}
          </dl>
        </div>
      )}
    </Drawer>
  );
}

function Fact({ name, value }: { name: string; value: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
