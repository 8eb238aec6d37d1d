import { ActionIcon } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { type Column, Grid } from "@/components/Grid";
import { useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { useRemoval } from "@/components/removal";
import { rowFacts } from "@/components/rowFacts";
import { Empty } from "@/components/states";
import { localRows } from "@/model/localRows";
import { text } from "@/text/access";
import classes from "./Access.module.css";
import { Name } from "./parts";

type Key = Schema<"AccessKeyAnswer">;
const { keys: words } = text;

export function scopeOfKey({ scope }: Pick<Key, "scope">): string {
  const parts = [...(scope?.projects ?? []), ...(scope?.actions ?? [])];
  return parts.length === 0 ? words.whole : parts.join(", ");
}

export function Expiry({ at }: { at: string | null | undefined }) {
  if (!at) return <>{words.never}</>;
  const isOver = Date.parse(at) < Date.now();
  return (
    <span className={isOver ? classes.bad : undefined}>
      <Moment at={at} />
      {isOver && ` (${words.expired})`}
    </span>
  );
}

export const KEY_COLUMNS: Column<Key>[] = [
  { key: "name", header: words.name, sort: "name", csv: (row) => row.name, render: (row) => <Name>{row.name}</Name> },
  {
    key: "clientId",
    header: words.clientId,
    csv: (row) => row.clientId,
    render: (row) => <span className={classes.mono}>{row.clientId}</span>,
  },
  { key: "scope", header: words.scope, csv: scopeOfKey, render: (row) => <Name>{scopeOfKey(row)}</Name> },
  {
    key: "created",
    header: words.created,
    sort: "createdAt",
    csv: (row) => row.createdAt,
    render: (row) => <Moment at={row.createdAt} />,
  },
  {
    key: "lastLogin",
    header: words.lastLogin,
    sort: "lastLogin",
    csv: (row) => row.lastLogin,
    render: (row) => (row.lastLogin ? <Moment at={row.lastLogin} /> : words.never),
  },
  {
    key: "expires",
    header: words.expires,
    sort: "expiresAt",
    csv: (row) => row.expiresAt,
    render: (row) => <Expiry at={row.expiresAt} />,
  },
];

export const KEY_FIELDS = {
  name: (row: Key) => row.name,
  createdBy: (row: Key) => row.createdBy,
  clientId: (row: Key) => row.clientId,
  createdAt: (row: Key) => row.createdAt,
  lastLogin: (row: Key) => row.lastLogin,
  expiresAt: (row: Key) => row.expiresAt,
};

/** The keys of all users. */
export function KeysTab() {
  const [state, setState] = useListState();
  const mayDelete = useMay("user.update");
  const isHeld = useWritesHeld();
  const removal = useRemoval(["access", "keys"]);
  const query = useQuery({
    queryKey: ["access", "keys"],
    queryFn: async () => (await got(api.GET("/api/v1/administration/access-keys"))).accessKeys,
    staleTime: 0,
  });
  const shown =
    query.data &&
    localRows(
      query.data.filter((each) => !removal.isHidden(each.id)),
      state,
      KEY_FIELDS,
    );
  const owner: Column<Key> = {
    key: "owner",
    header: words.owner,
    sort: "createdBy",
    csv: (row) => row.createdBy,
    render: (row) => <Name>{row.createdBy}</Name>,
  };
  const remove: Column<Key> = {
    key: "actions",
    header: "",
    align: "right",
    render: (row) => (
      <ActionIcon
        variant="subtle"
        color="gray"
        size="sm"
        disabled={isHeld}
        aria-label={`${words.delete}: ${row.name}`}
        onClick={() =>
          removal.remove([row.id], words.willDelete(row.name), () =>
            got(api.DELETE("/api/v1/administration/access-keys/{key_id}", { params: { path: { key_id: row.id } } })),
          )
        }
      >
        <IconTrash size={16} />
      </ActionIcon>
    ),
  };
  const columns = [KEY_COLUMNS[0]!, owner, ...KEY_COLUMNS.slice(1), ...(mayDelete ? [remove] : [])];
  return (
    <>
      <p className={classes.dim}>{words.lead}</p>
      <Grid
        label={text.tabs.accessKeys}
        rows={shown?.rows}
        total={shown?.total ?? null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={columns}
        idOf={(row) => row.id}
        nameOf={(row) => row.name}
        state={state}
        onState={setState}
        card={(row) => rowFacts(columns, row)}
        empty={<Empty title={words.empty} />}
      />
    </>
  );
}
