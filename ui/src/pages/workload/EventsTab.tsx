import { Checkbox, Group, Table, TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { useMemo, useState } from "react";
import type { Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { Moment } from "@/components/Moment";
import { Empty, Failed, Loading } from "@/components/states";
import { text } from "@/text/workload";
import { decisionsQuery, eventsQuery, type Workload } from "./queries";
import classes from "./Workload.module.css";

const words = text.events;

interface Happening {
  key: string;
  at: string;
  kind: string;
  pod: string;
  node: string;
  message: string;
  isDecision: boolean;
  isWarning: boolean;
}

/** What happened to its pods, and what was decided about it, newest first. */
export function happenings(
  events: readonly Schema<"EventItem">[],
  decisions: readonly Schema<"Decision">[],
): Happening[] {
  const ofPods = events.map((each) => ({
    key: each.id,
    at: each.at,
    kind: each.kind,
    pod: each.podName ?? "",
    node: each.node ?? "",
    message: messageOf(each),
    isDecision: false,
    isWarning: each.cause === "" && (each.type === "Warning" || (each.exitCode ?? 0) !== 0), // not if it was asked to end
  }));
  const decided = decisions.map((each) => ({
    key: `d${each.id}`,
    at: each.at,
    kind: each.kind as string,
    pod: "",
    node: each.nodes.join(", "),
    message: each.message,
    isDecision: true,
    isWarning: false,
  }));
  return [...ofPods, ...decided].sort(
    (a, b) => b.at.localeCompare(a.at) || b.key.localeCompare(a.key, "en", { numeric: true }),
  );
}

function messageOf(event: Schema<"EventItem">): string {
  const parts = [event.message === event.kind ? "" : event.message, event.detail === event.message ? "" : event.detail];
  if (event.exitCode != null && !event.message.includes(String(event.exitCode))) parts.push(words.exit(event.exitCode));
  return parts.filter((each) => each !== "").join(" · ");
}

export function EventsTab({ workload }: { workload: Workload }) {
  const events = useQuery(eventsQuery(workload.id));
  const decisions = useQuery(decisionsQuery(workload.id));
  const [wanted, setWanted] = useState("");
  const [decisionsOnly, setDecisionsOnly] = useState(false);
  const all = useMemo(() => happenings(events.data ?? [], decisions.data ?? []), [events.data, decisions.data]);
  if (events.data === undefined)
    return events.isError ? (
      <Failed error={events.error} onRetry={() => void events.refetch()} />
    ) : (
      <Loading rows={8} />
    );
  const lower = wanted.toLowerCase();
  const shown = all.filter(
    (each) =>
      (!decisionsOnly || each.isDecision) &&
      (lower === "" || `${each.kind} ${each.pod} ${each.node} ${each.message}`.toLowerCase().includes(lower)),
  );
  return (
    <Card
      title={words.title}
      note={String(shown.length)}
      flush
      aside={
        <Group gap="sm">
          <Checkbox
            size="xs"
            label={words.decisionsOnly}
            checked={decisionsOnly}
            onChange={(event) => setDecisionsOnly(event.currentTarget.checked)}
          />
          <TextInput
            size="xs"
            type="search"
            leftSection={<IconSearch size={14} />}
            placeholder={words.filter}
            aria-label={words.filter}
            value={wanted}
            onChange={(event) => setWanted(event.currentTarget.value)}
          />
        </Group>
      }
    >
      {shown.length === 0 ? (
        <Empty title={words.empty} />
      ) : (
        <Table.ScrollContainer minWidth={640}>
          <Table fz="sm" verticalSpacing={6}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{words.at}</Table.Th>
                <Table.Th>{words.what}</Table.Th>
                <Table.Th>{words.detail}</Table.Th>
                <Table.Th>{words.pod}</Table.Th>
                <Table.Th>{words.node}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {shown.map((each) => (
                <Row key={each.key} row={each} />
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </Card>
  );
}

function Row({ row }: { row: Happening }) {
  return (
    <Table.Tr>
      <Table.Td className={classes.nowrap}>
        <Moment at={row.at} />
      </Table.Td>
      <Table.Td className={classes.nowrap}>
        <span className={clsx(classes.kind, row.isDecision && classes.decided, row.isWarning && classes.warned)}>
          {words.kinds[row.kind] ?? row.kind}
        </span>
      </Table.Td>
      <Table.Td>{row.message}</Table.Td>
      <Table.Td className={classes.nowrap}>{row.pod}</Table.Td>
      <Table.Td className={classes.nowrap}>
        {row.node !== "" && !row.node.includes(",") ? (
          <Link to="/nodes/$node" params={{ node: row.node }}>
            {row.node}
          </Link>
        ) : (
          row.node
        )}
      </Table.Td>
    </Table.Tr>
  );
}
