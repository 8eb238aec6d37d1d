import { ActionIcon, Button, Menu } from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconDots, IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { type Column, Grid } from "@/components/Grid";
import { useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { Page } from "@/components/Page";
import { useRemoval } from "@/components/removal";
import { rowFacts } from "@/components/rowFacts";
import { Empty } from "@/components/states";
import { localRows } from "@/model/localRows";
import { usePlaces } from "@/pages/access/queries";
import { text } from "@/text/policies";
import { PolicyEditor } from "./Editor";
import { Effective } from "./Effective";
import classes from "./Policies.module.css";
import { deletePolicy, type Place, policiesQuery, SCOPES, scopeId, TYPES } from "./queries";

type Entry = Schema<"PolicyEntry">;
const { columns: words } = text;

export function PoliciesPage() {
  const raw = useSearch({ strict: false }) as Record<string, unknown>;
  if (raw.new !== undefined) return <PolicyEditor place={null} />;
  const type = TYPES.find((each) => each === raw.edit);
  if (type === undefined) return <PolicyList />;
  const scope = SCOPES.find((each) => each === raw.scope) ?? "tenant";
  const place = { type, scope, id: raw.id === undefined ? "" : String(raw.id) };
  return <PolicyEditor key={JSON.stringify(place)} place={place} />;
}

function placeOf(entry: Entry): Place {
  return { type: entry.type, scope: entry.meta.scope, id: scopeId(entry.meta) };
}

function searchOf({ type, scope, id }: Place) {
  return { edit: type, scope, ...(id === "" ? {} : { id }) };
}

function idOf(entry: Entry): string {
  return entry.meta.id;
}

function PolicyList() {
  const [state, setState] = useListState();
  const navigate = useNavigate();
  const query = useQuery(policiesQuery);
  const removal = useRemoval(["policy"]);
  const mayWrite = useMay("policy.write");
  const isHeld = useWritesHeld();
  const columns = useColumns(removal);
  const { choices } = usePlaces();
  const fields = {
    name: (row: Entry) => row.meta.name,
    type: (row: Entry) => row.type,
    scope: (row: Entry) => row.meta.scope,
    scopeName: (row: Entry) => scopeName(row, choices),
    by: (row: Entry) => row.meta.updatedBy,
    updated: (row: Entry) => row.meta.updatedAt,
  };
  const shown =
    query.data &&
    localRows(
      query.data.filter((each) => !removal.isHidden(idOf(each))),
      state,
      fields,
    );
  const add = mayWrite && (
    <Button
      component={Link}
      to="/policies"
      search={{ new: 1 } as never}
      leftSection={<IconPlus size={16} />}
      disabled={isHeld}
    >
      {text.new}
    </Button>
  );
  return (
    <Page title={text.title} lead={text.lead} actions={add}>
      <Grid
        label={text.list}
        rows={shown?.rows}
        total={shown?.total ?? null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={columns}
        idOf={idOf}
        nameOf={(row) => row.meta.name}
        state={state}
        onState={setState}
        onOpen={(row) => void navigate({ to: "/policies", search: searchOf(placeOf(row)) } as never)}
        filterFields={[
          { field: "type", label: words.type, choices: TYPES, operators: ["=="] },
          { field: "scope", label: words.scopeType, choices: SCOPES, operators: ["=="] },
          { field: "scopeName", label: words.scope },
          { field: "name", label: words.name },
        ]}
        card={(row) => rowFacts(columns, row)}
        empty={<Empty title={text.empty} hint={text.emptyHint} action={add} />}
      />
      <Effective />
    </Page>
  );
}

function scopeName(row: Entry, choices: ReturnType<typeof usePlaces>["choices"]): string {
  const id = scopeId(row.meta);
  if (row.meta.scope === "tenant") return text.everywhere;
  return choices(row.meta.scope).find((each) => each.value === id)?.label ?? id;
}

function useColumns(removal: ReturnType<typeof useRemoval>): Column<Entry>[] {
  const { choices } = usePlaces();
  const [mayWrite, mayDelete, mayAudit] = [useMay("policy.write"), useMay("policy.delete"), useMay("audit.read")];
  const isHeld = useWritesHeld();
  return [
    {
      key: "name",
      header: words.name,
      sort: "name",
      csv: (row) => row.meta.name,
      render: (row) => (
        <Link to="/policies" search={searchOf(placeOf(row)) as never} className={classes.name} title={row.meta.name}>
          {row.meta.name}
        </Link>
      ),
    },
    { key: "type", header: words.type, sort: "type", csv: (row) => row.type, render: (row) => text.types[row.type] },
    {
      key: "scopeType",
      header: words.scopeType,
      sort: "scope",
      csv: (row) => row.meta.scope,
      render: (row) => text.scopes[row.meta.scope],
    },
    {
      key: "scope",
      header: words.scope,
      sort: "scopeName",
      csv: (row) => scopeName(row, choices),
      render: (row) => <span className={classes.name}>{scopeName(row, choices)}</span>,
    },
    {
      key: "status",
      header: words.status,
      csv: (row) => row.status?.validation?.errorMessage ?? text.ok,
      render: (row) => <Status message={row.status?.validation?.errorMessage ?? ""} />,
    },
    {
      key: "updated",
      header: words.updated,
      sort: "updated",
      csv: (row) => row.meta.updatedAt,
      render: (row) => <Moment at={row.meta.updatedAt} />,
    },
    { key: "by", header: words.by, sort: "by", csv: (row) => row.meta.updatedBy, render: (row) => row.meta.updatedBy },
    {
      key: "revision",
      header: words.revision,
      align: "right",
      optional: true,
      csv: (row) => row.meta.revision,
      render: (row) => row.meta.revision,
    },
    {
      key: "actions",
      header: "",
      align: "right",
      render: (row) => (
        <Menu position="bottom-end" withinPortal>
          <Menu.Target>
            <ActionIcon variant="subtle" color="gray" size="sm" aria-label={text.actionsOf(row.meta.name)}>
              <IconDots size={16} />
            </ActionIcon>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item component={Link} to="/policies" search={searchOf(placeOf(row)) as never}>
              {mayWrite ? text.edit : text.view}
            </Menu.Item>
            {mayAudit && (
              <Menu.Item
                component={Link}
                to="/audit"
                search={{ f: [`entity_type==policy`, `entity_id==${row.meta.id}`], period: "all" } as never}
              >
                {text.history}
              </Menu.Item>
            )}
            {mayDelete && (
              <Menu.Item
                color="red"
                disabled={isHeld}
                onClick={() =>
                  removal.remove([idOf(row)], text.willDelete(row.meta.name), () => deletePolicy(placeOf(row)))
                }
              >
                {text.delete}
              </Menu.Item>
            )}
          </Menu.Dropdown>
        </Menu>
      ),
    },
  ];
}

function Status({ message }: { message: string }) {
  if (message === "")
    return (
      <span className={classes.ok}>
        <IconCheck size={14} aria-hidden="true" />
        {text.ok}
      </span>
    );
  return (
    <span className={classes.broken} title={`${message} ${text.brokenHint}`}>
      <IconAlertTriangle size={14} aria-hidden="true" />
      {text.broken}
    </span>
  );
}
