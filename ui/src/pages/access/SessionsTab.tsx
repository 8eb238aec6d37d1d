import { Button } from "@mantine/core";
import { modals } from "@mantine/modals";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { type Column, Grid } from "@/components/Grid";
import { useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { rowFacts } from "@/components/rowFacts";
import { Empty } from "@/components/states";
import { text } from "@/text/access";
import { text as frame } from "@/text/frame";
import { Name } from "./parts";
import { useReread } from "./queries";
import { clientName } from "./userAgent";

type Session = Schema<"SessionItem">;
const { sessions: words } = text;

/** How a session is described; used for one's own as well. */
export const SESSION_COLUMNS: Column<Session>[] = [
  {
    key: "client",
    header: words.client,
    csv: (row) => row.client,
    render: (row) => (
      <span title={row.client}>
        {clientName(row.client) || (words.kinds[row.kind] ?? row.kind)}
        {row.isCurrent && ` (${words.current})`}
      </span>
    ),
  },
  {
    key: "method",
    header: words.method,
    csv: (row) => row.method,
    render: (row) => words.methods[row.method ?? ""] ?? row.method ?? frame.shared.unknown,
  },
  {
    key: "sourceIp",
    header: words.sourceIp,
    csv: (row) => row.sourceIp,
    render: (row) => row.sourceIp || frame.shared.unknown,
  },
  {
    key: "created",
    header: words.created,
    csv: (row) => row.createdAt,
    render: (row) => <Moment at={row.createdAt} />,
  },
  {
    key: "lastUsed",
    header: words.lastUsed,
    csv: (row) => row.lastUsedAt,
    render: (row) => <Moment at={row.lastUsedAt} />,
  },
  {
    key: "expires",
    header: words.expires,
    csv: (row) => row.expiresAt,
    render: (row) => (row.expiresAt ? <Moment at={row.expiresAt} /> : words.never),
  },
];

export function askAndEnd(session: Session, end: () => Promise<unknown>, reread: () => Promise<unknown>): void {
  const act = async () => {
    try {
      await end();
      done(words.ended);
      await reread();
    } catch (error) {
      refused(error);
    }
  };
  modals.openConfirmModal({
    title: words.endTitle(session.subjectName),
    children: words.endHint,
    labels: { confirm: words.end, cancel: frame.shared.cancel },
    onConfirm: () => void act(),
  });
}

export function SessionsTab() {
  const [state, setState] = useListState();
  const mayEnd = useMay("access.write");
  const isHeld = useWritesHeld();
  const reread = useReread();
  const asked = { offset: (state.page - 1) * state.size, limit: state.size, subject: state.search };
  const query = useQuery({
    queryKey: ["access", "sessions", asked],
    queryFn: () => got(api.GET("/api/v1/sessions", { params: { query: asked } })),
    placeholderData: keepPreviousData,
    staleTime: 0,
  });
  const columns: Column<Session>[] = [
    {
      key: "subject",
      header: words.subject,
      csv: (row) => row.subjectName,
      render: (row) => <Name>{row.subjectName}</Name>,
    },
    ...SESSION_COLUMNS,
  ];
  if (mayEnd)
    columns.push({
      key: "actions",
      header: "",
      align: "right",
      render: (row) => (
        <Button
          size="compact-xs"
          disabled={isHeld}
          onClick={() => {
            const path = { session_id: row.id };
            askAndEnd(row, () => got(api.DELETE("/api/v1/sessions/{session_id}", { params: { path } })), reread);
          }}
        >
          {words.end}
        </Button>
      ),
    });
  return (
    <Grid
      label={text.tabs.sessions}
      rows={query.data?.sessions}
      hasMore={query.data?.next != null}
      error={query.error}
      onRetry={() => void query.refetch()}
      columns={columns}
      idOf={(row) => row.id}
      nameOf={(row) => row.subjectName}
      state={state}
      onState={setState}
      card={(row) => rowFacts(columns, row)}
      empty={<Empty title={words.empty} />}
    />
  );
}
