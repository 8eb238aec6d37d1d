/** Draining a node: who moves, waits and ends is shown before, how far it is after; and it can be undone. */
import { Button, Group, Modal, Progress, Stack } from "@mantine/core";
import { IconPlayerPause } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { Loading } from "@/components/states";
import { Consequences, SharesBeforeAfter } from "@/pages/projects/Consequences";
import outcome from "@/pages/projects/Consequences.module.css";
import { useWhatIf } from "@/pages/projects/planning";
import { Warning } from "@/pages/projects/Warning";
import { text as frame } from "@/text/frame";
import { text } from "@/text/nodes";
import { nodeQuery, useMark } from "./nodeMarks";
import { drained, isDrained } from "./nodeState";
import classes from "./nodes.module.css";

type Node = Schema<"NodeAnswer">;

export function DrainDialog({ node, onClose }: { node: Node | null; onClose: () => void }) {
  return (
    <Modal opened={node !== null} onClose={onClose} size="lg" title={node === null ? "" : text.drain.title(node.name)}>
      {node !== null && <Content node={node} onClose={onClose} />}
    </Modal>
  );
}

/** The node with its pods, read again when either changes. */
export function useNodeWithPods(node: Pick<Node, "name" | "clusterUuid">) {
  const one = nodeQuery(node.name, node.clusterUuid);
  const marks = useQuery(one).data?.value;
  const pods = useQuery({ ...one, queryKey: ["pods", "node", node.name, node.clusterUuid] }).data?.value;
  return { marks, pods: pods?.podsThere };
}

function Content({ node, onClose }: { node: Node; onClose: () => void }) {
  const isHeld = useWritesHeld();
  const { marks, pods } = useNodeWithPods(node);
  const mark = useMark();
  const [before] = useState(node.pods);
  const isGoing = marks !== undefined && isDrained(marks);
  const set = (on: boolean) =>
    mark.mutate({
      node,
      change: (overrides) => drained(overrides, on),
      words: on ? text.actions.done.drain(node.name) : text.actions.done.undrain(node.name),
    });
  return (
    <Stack gap="md">
      {isGoing ? (
        <Going name={node.name} left={pods?.length ?? node.pods} all={Math.max(before, pods?.length ?? 0)} />
      ) : (
        <Preview node={node} pods={pods} />
      )}
      <Group justify="flex-end">
        <Button onClick={onClose}>{isGoing ? frame.shared.close : frame.shared.cancel}</Button>
        {isGoing ? (
          <Button disabled={isHeld} loading={mark.isPending} onClick={() => set(false)}>
            {text.drain.undo}
          </Button>
        ) : (
          <Button variant="filled" disabled={isHeld} loading={mark.isPending} onClick={() => set(true)}>
            {text.drain.confirm}
          </Button>
        )}
      </Group>
    </Stack>
  );
}

function Going({ name, left, all }: { name: string; left: number; all: number }) {
  return (
    <div aria-live="polite" data-left={left}>
      <p>{left === 0 ? text.drain.finished(name) : text.drain.progress(left, all)}</p>
      <Progress
        value={all === 0 ? 100 : (100 * (all - left)) / all}
        aria-label={text.drain.progress(left, all)}
        mt="xs"
      />
    </div>
  );
}

/** Interactive work is not queued again by a drain, whatever the plan says: it is suspended. */
function useInteractive() {
  return useQuery({
    queryKey: ["workloads", "interactive"],
    queryFn: async () => {
      const filterBy = "type==Workspace,phase==Running";
      const page = await got(api.GET("/api/v1/workloads", { params: { query: { filterBy, limit: 500 } } }));
      return new Set(page.workloads.map((each) => each.id));
    },
  }).data;
}

function Preview({ node, pods }: { node: Node; pods: Schema<"NodePod">[] | undefined }) {
  const plan = useWhatIf(node.clusterUuid, node.nodePool, { withoutNodes: [node.name] });
  const interactive = useInteractive();
  const here = new Map(pods?.map((each) => [each.workloadId ?? each.name, each]));
  const suspended = [...here.values()].filter((each) => each.workloadId && interactive?.has(each.workloadId));
  const ids = new Set(suspended.map((each) => each.workloadId));
  const answer = plan.answer && {
    ...plan.answer,
    groups: plan.answer.groups.filter((each) => !ids.has(each.group)),
  };
  return (
    <>
      <p>{text.drain.hint}</p>
      <p>{pods?.length === 0 ? text.drain.empty : text.drain.runs(pods?.length ?? node.pods)}</p>
      <div className={classes.part} data-plan={answer === undefined ? "none" : "current"}>
        <h3>{text.drain.consequences}</h3>
        {!plan.mayPlan ? (
          <p>{text.drain.noRight}</p>
        ) : plan.error ? (
          <Warning>{`${text.drain.notPlanned}: ${plan.error.message}`}</Warning>
        ) : answer === undefined ? (
          <Loading height={120} />
        ) : (
          <>
            {suspended.length > 0 && (
              <ul className={outcome.list}>
                {suspended.map((each) => (
                  <li key={each.workloadId} data-effect="suspended" className={outcome.item}>
                    <IconPlayerPause size={16} color="var(--stopped)" aria-hidden="true" />
                    <span>
                      <Link to="/workloads/$workload" params={{ workload: each.workloadId! } as never}>
                        {each.workloadName}
                      </Link>{" "}
                      {text.drain.suspended}
                    </span>
                  </li>
                ))}
              </ul>
            )}
            <Consequences answer={answer} />
            <SharesBeforeAfter answer={answer} />
          </>
        )}
      </div>
    </>
  );
}
