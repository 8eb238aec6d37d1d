import type { ReactNode } from "react";
import { Moment } from "@/components/Moment";
import { ProjectName } from "@/components/ProjectName";
import { bytes, duration, gpus, UNKNOWN } from "@/model/format";
import { text } from "@/text/workload";
import type { Workload } from "./queries";
import classes from "./Workload.module.css";

const words = text.request;

function factsOf(workload: Workload): [string, ReactNode][] {
  const asked = workload.workloadRequestedResources;
  const spec = (workload.spec ?? {}) as { nodeType?: string; deadlineSeconds?: number };
  const labels = Object.entries(workload.labels ?? {});
  const facts: [string, ReactNode][] = [
    [words.project, <ProjectName key="p" project={workload.projectId} name={workload.projectName} />],
    [words.department, workload.departmentName],
    [
      words.submitted,
      <span key="s">
        <Moment at={workload.createdAt} /> {words.by(workload.submittedBy)}
      </span>,
    ],
    [words.gpus, words.each(gpus(asked?.gpu?.request), workload.requestedPods?.number ?? 1)],
    [words.cpu, asked?.cpu?.request?.toFixed(2) ?? UNKNOWN],
    [words.memory, asked?.memoryBytes ? bytes(asked.memoryBytes) : UNKNOWN],
    [words.nodeType, spec.nodeType ?? words.any],
    [words.pool, (workload.currentNodePools ?? []).join(", ") || words.any],
    [words.priority, `${workload.priorityClassName} (${workload.priority})`],
    [words.image, (workload.images ?? []).join(", ") || UNKNOWN],
    [words.timeLimit, spec.deadlineSeconds ? duration(spec.deadlineSeconds * 1000) : words.none],
    [words.retries, workload.retriesLeft ?? UNKNOWN],
    [words.source, words.sources[workload.source] ?? workload.source],
  ];
  if (asked?.gpuMemoryMib != null) facts.splice(4, 0, [words.gpuMemory, bytes(asked.gpuMemoryMib * 1024 * 1024)]);
  if (labels.length > 0) facts.push([words.labels, labels.map(([key, value]) => `${key}=${value}`).join(", ")]);
  return facts;
}

export function RequestFacts({ workload }: { workload: Workload }) {
  return (
    <dl className={classes.facts}>
      {factsOf(workload).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
