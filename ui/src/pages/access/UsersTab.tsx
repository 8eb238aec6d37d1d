import { Button, Menu } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { type Column, Grid } from "@/components/Grid";
import { listQuery, useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { useRemoval } from "@/components/removal";
import { rowFacts } from "@/components/rowFacts";
import { type Secret, SecretOnce } from "@/components/SecretOnce";
import { Empty } from "@/components/states";
import { text } from "@/text/access";
import { type Given, NewRules } from "./NewRules";
import { NewUser } from "./NewUser";
import { Name, RoleChips, RowMenu, State } from "./parts";
import { bySubject, rulesOfQuery, useReread } from "./queries";
import { deleteUser, endSessions, resetPassword, setDisabled } from "./userActions";

type User = Schema<"User">;
type Rules = Map<string, Schema<"AccessRule">[]>;
const { users } = text;

const FILTERS = [
  { field: "email", label: users.email },
  { field: "isLocal", label: users.local, choices: ["true", "false"], operators: ["==" as const] },
  { field: "createdBy", label: users.createdBy },
];

function columns(rules: Rules | undefined, menu: ((user: User) => React.ReactNode) | null): Column<User>[] {
  const list: Column<User>[] = [
    {
      key: "email",
      header: users.email,
      sort: "email",
      csv: (row) => row.email,
      render: (row) => <Name>{row.email}</Name>,
    },
    {
      key: "roles",
      header: users.roles,
      csv: (row) => (rules?.get(row.id) ?? []).map((each) => `${each.roleName} (${each.scopeName})`).join("; "),
      render: (row) => <RoleChips rules={rules && (rules.get(row.id) ?? [])} />,
    },
    {
      key: "status",
      header: users.status,
      csv: (row) => (row.disabled ? users.disabled : users.active),
      render: (row) =>
        row.disabled ? (
          <State is="off">{users.disabled}</State>
        ) : row.needToChangePassword ? (
          <State is="wait">{users.mustChange}</State>
        ) : (
          <State is="on">{users.active}</State>
        ),
    },
    {
      key: "lastLogin",
      header: users.lastLogin,
      sort: "lastLogin",
      csv: (row) => row.lastLogin,
      render: (row) => (row.lastLogin ? <Moment at={row.lastLogin} /> : users.never),
    },
    {
      key: "type",
      header: users.type,
      sort: "isLocal",
      csv: (row) => (row.isLocal ? users.local : users.directory),
      render: (row) => (row.isLocal ? users.local : users.directory),
    },
    {
      key: "groups",
      header: users.groups,
      optional: true,
      csv: (row) => (row.groups ?? []).join("; "),
      render: (row) => (row.groups ?? []).join(", "),
    },
    {
      key: "created",
      header: users.created,
      sort: "createdAt",
      optional: true,
      csv: (row) => row.createdAt,
      render: (row) => <Moment at={row.createdAt} />,
    },
    {
      key: "createdBy",
      header: users.createdBy,
      sort: "createdBy",
      optional: true,
      csv: (row) => row.createdBy,
      render: (row) => row.createdBy,
    },
  ];
  if (menu) list.push({ key: "actions", header: "", align: "right", render: menu });
  return list;
}

export function UsersTab() {
  const [state, setState] = useListState();
  const [isNew, setNew] = useState(false);
  const [secret, setSecret] = useState<Secret | null>(null);
  const [given, setGiven] = useState<Given | null>(null);
  const [selected, setSelected] = useState<Set<string>>(new Set());
  const [may, mayCreate, mayDelete] = [useMay("user.update"), useMay("user.create"), useMay("user.delete")];
  const mayGive = useMay("access-rule.create");
  const isHeld = useWritesHeld();
  const reread = useReread();
  const removal = useRemoval(["access"]);
  const query = useQuery({
    queryKey: ["access", "users", listQuery(state)],
    queryFn: () => got(api.GET("/api/v1/users", { params: { query: listQuery(state) } })) as Promise<User[]>,
    placeholderData: keepPreviousData,
    staleTime: 0,
  });
  const { filterBy, search } = listQuery(state);
  const count = useQuery({
    queryKey: ["access", "user-count", filterBy, search],
    queryFn: () =>
      got(
        api.GET("/api/v1/users/count", {
          params: { query: { ...(filterBy ? { filterBy } : {}), ...(search ? { search } : {}) } },
        }),
      ),
    placeholderData: keepPreviousData,
    staleTime: 0,
  });
  const rows = query.data?.filter((each) => !removal.isHidden(each.id));
  const ofUsers = useQuery(rulesOfQuery((query.data ?? []).map((each) => each.id))).data;
  const rules = useMemo(() => (ofUsers ? bySubject(ofUsers) : undefined), [ofUsers]);
  const menu = (user: User) => (
    <RowMenu name={user.email}>
      <Menu.Item component={Link} to="/access" search={{ tab: "rules", q: user.email } as never}>
        {users.rules}
      </Menu.Item>
      {mayGive && (
        <Menu.Item onClick={() => setGiven({ type: "user", ids: [user.id], labels: { [user.id]: user.email } })}>
          {users.addRule}
        </Menu.Item>
      )}
      <Menu.Item component={Link} to="/audit" search={{ f: [`subject==${user.email}`] } as never}>
        {users.auditOf}
      </Menu.Item>
      {may && (
        <>
          <Menu.Divider />
          <Menu.Item disabled={isHeld || !user.isLocal} onClick={() => resetPassword(user, setSecret)}>
            {users.reset}
          </Menu.Item>
          <Menu.Item disabled={isHeld} onClick={() => void endSessions(user, reread)}>
            {users.end}
          </Menu.Item>
          <Menu.Item disabled={isHeld} onClick={() => void setDisabled(user, !user.disabled, reread)}>
            {user.disabled ? users.enable : users.disable}
          </Menu.Item>
        </>
      )}
      {mayDelete && (
        <Menu.Item color="red" disabled={isHeld} onClick={() => deleteUser(user, removal)}>
          {users.delete}
        </Menu.Item>
      )}
    </RowMenu>
  );
  const all = columns(rules, menu);
  const chosen = (rows ?? []).filter((each) => selected.has(each.id));
  return (
    <>
      <Grid
        label={text.tabs.users}
        rows={rows}
        total={count.data?.count ?? null}
        hasMore={(query.data?.length ?? 0) === state.size}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={all}
        idOf={(row) => row.id}
        nameOf={(row) => row.email}
        state={state}
        onState={setState}
        filterFields={FILTERS}
        selected={selected}
        onSelect={setSelected}
        bulk={
          <>
            {mayGive && (
              <Button
                size="compact-sm"
                onClick={() =>
                  setGiven({
                    type: "user",
                    ids: chosen.map((each) => each.id),
                    labels: Object.fromEntries(chosen.map((each) => [each.id, each.email])),
                  })
                }
              >
                {users.addRule}
              </Button>
            )}
            {may && (
              <Button
                size="compact-sm"
                disabled={isHeld}
                onClick={() => {
                  for (const each of chosen) void setDisabled(each, true, reread);
                  setSelected(new Set());
                }}
              >
                {users.disable}
              </Button>
            )}
            {mayDelete && (
              <Button
                size="compact-sm"
                color="red"
                disabled={isHeld}
                onClick={() => {
                  for (const each of chosen) deleteUser(each, removal);
                  setSelected(new Set());
                }}
              >
                {users.delete}
              </Button>
            )}
          </>
        }
        card={(row) => rowFacts(all, row)}
        empty={<Empty title={users.empty} />}
        tools={
          mayCreate && (
            <Button size="xs" leftSection={<IconPlus size={14} />} disabled={isHeld} onClick={() => setNew(true)}>
              {users.new}
            </Button>
          )
        }
      />
      <NewUser opened={isNew} onClose={() => setNew(false)} onSecret={setSecret} />
      <NewRules given={given} onClose={() => setGiven(null)} />
      <SecretOnce secret={secret} onClose={() => setSecret(null)} />
    </>
  );
}
