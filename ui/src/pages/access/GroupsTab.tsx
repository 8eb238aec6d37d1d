import { Button, Menu } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { type Column, Grid } from "@/components/Grid";
import { useListState } from "@/components/listState";
import { rowFacts } from "@/components/rowFacts";
import { Empty } from "@/components/states";
import { localRows } from "@/model/localRows";
import { text } from "@/text/access";
import classes from "./Access.module.css";
import { type Given, NewRules } from "./NewRules";
import { inScope, Name, RoleChips, RowMenu } from "./parts";
import { bySubject, groupRulesQuery } from "./queries";

interface GroupRow {
  name: string;
  rules: Schema<"AccessRule">[];
}

const { groups: words } = text;
const FIELDS = {
  name: (row: GroupRow) => row.name,
  roles: (row: GroupRow) => row.rules.map((each) => each.roleName),
};

/** Directory groups with the roles that their members have. */
export function GroupsTab() {
  const [state, setState] = useListState();
  const [given, setGiven] = useState<Given | null>(null);
  const mayGive = useMay("access-rule.create");
  const isHeld = useWritesHeld();
  const query = useQuery(groupRulesQuery);
  const all = useMemo(
    () => query.data && [...bySubject(query.data)].map(([name, rules]): GroupRow => ({ name, rules })),
    [query.data],
  );
  const shown = all && localRows(all, state, FIELDS);
  const columns: Column<GroupRow>[] = [
    {
      key: "name",
      header: words.group,
      sort: "name",
      csv: (row) => row.name,
      render: (row) => <Name>{row.name}</Name>,
    },
    {
      key: "roles",
      header: words.roles,
      csv: (row) => row.rules.map((each) => `${each.roleName} ${inScope(each)}`).join("; "),
      render: (row) => <RoleChips rules={row.rules} />,
    },
    {
      key: "actions",
      header: "",
      align: "right",
      render: (row) => (
        <RowMenu name={row.name}>
          <Menu.Item component={Link} to="/access" search={{ tab: "rules", q: row.name } as never}>
            {text.users.rules}
          </Menu.Item>
          {mayGive && (
            <Menu.Item onClick={() => setGiven({ type: "group", ids: [row.name] })}>{text.users.addRule}</Menu.Item>
          )}
        </RowMenu>
      ),
    },
  ];
  const add = mayGive && (
    <Button
      size="xs"
      leftSection={<IconPlus size={14} />}
      disabled={isHeld}
      onClick={() => setGiven({ type: "group", ids: [] })}
    >
      {words.add}
    </Button>
  );
  return (
    <>
      <p className={classes.dim}>{words.lead}</p>
      <Grid
        label={text.tabs.groups}
        rows={shown?.rows}
        total={shown?.total ?? null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={columns}
        idOf={(row) => row.name}
        nameOf={(row) => row.name}
        state={state}
        onState={setState}
        card={(row) => rowFacts(columns, row)}
        empty={<Empty title={words.empty} hint={words.emptyHint} />}
        tools={add}
      />
      <NewRules given={given} onClose={() => setGiven(null)} />
    </>
  );
}
