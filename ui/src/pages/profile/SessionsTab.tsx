import { Button } from "@mantine/core";
import { modals } from "@mantine/modals";
import { useQuery } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { api, got } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { type Column, Grid } from "@/components/Grid";
import { useListState } from "@/components/listState";
import { rowFacts } from "@/components/rowFacts";
import { signOut } from "@/frame/signOut";
import { localRows } from "@/model/localRows";
import { askAndEnd, SESSION_COLUMNS } from "@/pages/access/SessionsTab";
import { text as access } from "@/text/access";
import { text as frame } from "@/text/frame";
import { text } from "@/text/profile";
import classes from "./Profile.module.css";

type Session = Schema<"SessionItem">;
const { sessions: words } = text;

export function SessionsTab() {
  const [state, setState] = useListState();
  const isHeld = useWritesHeld();
  const query = useQuery({
    queryKey: ["me", "sessions"],
    queryFn: async () => (await got(api.GET("/api/v1/me/sessions", { params: { query: { limit: 500 } } }))).sessions,
    staleTime: 0,
  });
  const shown =
    query.data && localRows(query.data, state, { client: (row: Session) => row.client, from: (row) => row.sourceIp });
  const endOthers = async () => {
    try {
      const answer = await got(api.DELETE("/api/v1/me/sessions"));
      done(words.ended(answer.ended));
      await query.refetch();
    } catch (error) {
      refused(error);
    }
  };
  const actions: Column<Session> = {
    key: "actions",
    header: "",
    align: "right",
    render: (row) =>
      row.isCurrent ? (
        <Button size="compact-xs" onClick={signOut}>
          {words.out}
        </Button>
      ) : (
        <Button
          size="compact-xs"
          disabled={isHeld}
          onClick={() => {
            const path = { session_id: row.id };
            const end = () => got(api.DELETE("/api/v1/me/sessions/{session_id}", { params: { path } }));
            askAndEnd(row, end, query.refetch);
          }}
        >
          {access.sessions.end}
        </Button>
      ),
  };
  const columns = [...SESSION_COLUMNS, actions];
  return (
    <>
      <p className={classes.hint}>{words.lead}</p>
      <Grid
        label={text.tabs.sessions}
        rows={shown?.rows}
        total={shown?.total ?? null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={columns}
        idOf={(row) => row.id}
        nameOf={(row) => row.client}
        state={state}
        onState={setState}
        card={(row) => rowFacts(columns, row)}
        tools={
          <Button
            size="xs"
            disabled={isHeld || (query.data?.length ?? 0) < 2}
            onClick={() =>
              modals.openConfirmModal({
                title: words.othersTitle,
                children: words.othersHint,
                labels: { confirm: words.others, cancel: frame.shared.cancel },
                onConfirm: () => void endOthers(),
              })
            }
          >
            {words.others}
          </Button>
        }
      />
    </>
  );
}
