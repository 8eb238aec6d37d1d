import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { Card } from "@/components/Card";
import { LogPanel } from "@/components/LogPanel";
import { Empty, Loading } from "@/components/states";
import { wordIn } from "@/model/address";
import { text } from "@/text/workload";
import { livesQuery, type Pod, type Workload } from "./queries";

/** Current pods first, then earlier lives, the latest before the others; what has not started has nothing to read. */
export function logChoices(lives: readonly Pod[]): { value: string; label: string; isOver: boolean }[] {
  return [...lives]
    .sort(
      (a, b) =>
        Number(hasLog(b)) - Number(hasLog(a)) ||
        Number(b.current) - Number(a.current) ||
        b.incarnation - a.incarnation ||
        a.index - b.index,
    )
    .map((each) => ({
      value: each.id,
      label: each.current ? each.name : `${each.name} · ${text.log.older}`,
      isOver: each.phase === "ended",
    }));
}

const hasLog = (pod: Pod) => pod.startedAt != null;

export function LogTab({ workload }: { workload: Workload }) {
  const lives = useQuery(livesQuery(workload.id));
  const pod = wordIn((useSearch({ strict: false }) as { pod?: unknown }).pod);
  const choices = useMemo(() => logChoices(lives.data ?? []), [lives.data]);
  if (lives.data === undefined) return <Loading height={420} />;
  if (choices.length === 0)
    return (
      <Card>
        <Empty title={text.log.notYet} />
      </Card>
    );
  return (
    <LogPanel
      workload={workload.id}
      name={workload.name}
      choices={choices}
      {...(pod === undefined ? {} : { firstPod: pod })}
    />
  );
}
