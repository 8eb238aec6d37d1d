import { Checkbox, Stack } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, call, got } from "@/api/client";
import { useMe } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { refused } from "@/components/answers";
import { Card } from "@/components/Card";
import { isWaiting } from "@/model/status";
import { text } from "@/text/workload";
import type { Workload } from "./queries";
import classes from "./Workload.module.css";
import { isWatched, unwatch, watch } from "./watches";

const words = text.notice;
const TYPES = ["started", "failed", "preempted"];

/** Whether the reader gets e-mails when work starts, and a way to change that. */
function useMail() {
  const queries = useQueryClient();
  const query = useQuery({ queryKey: ["subscriptions"], queryFn: () => got(api.GET("/api/v1/subscriptions")) });
  const found = query.data?.find(
    (each) => each.channels.includes("email") && each.events.some((event) => event.types.includes("started")),
  );
  const change = useMutation({
    mutationFn: (on: boolean) =>
      on
        ? call("POST", "/api/v1/subscriptions", {
            events: [{ category: "workload", types: TYPES }],
            channels: ["email"],
          })
        : call("DELETE", `/api/v1/subscriptions/${found?.id}`),
    onError: (error) => refused(error),
    onSettled: () => queries.invalidateQueries({ queryKey: ["subscriptions"] }),
  });
  return { isOn: found !== undefined, isReady: query.data !== undefined, change };
}

/** For the reader's own work: hear of its start without looking. */
export function StartNotice({ workload }: { workload: Workload }) {
  const me = useMe();
  const [isOn, setOn] = useState(() => isWatched(workload.id));
  const mail = useMail();
  const isHeld = useWritesHeld();
  const isOver = ["Deleted", "Deleting", "Completed", "Failed"].includes(workload.phase);
  if (isOver) return null;
  const isMine = me?.username === workload.submittedBy;
  return (
    <Card title={isWaiting(workload) ? words.title : words.titleLater}>
      <Stack gap="xs">
        {isWaiting(workload) && (
          <Checkbox
            label={words.inPage}
            description={words.pageHint}
            checked={isOn}
            onChange={(event) => {
              const on = event.currentTarget.checked;
              setOn(on);
              if (on) watch(workload.id, workload.name);
              else unwatch(workload.id);
            }}
          />
        )}
        {isMine && (
          <Checkbox
            label={words.email}
            checked={mail.isOn}
            disabled={!mail.isReady || isHeld || mail.change.isPending}
            onChange={(event) => mail.change.mutate(event.currentTarget.checked)}
          />
        )}
        {isMine && <p className={classes.hint}>{words.emailHint}</p>}
      </Stack>
    </Card>
  );
}
