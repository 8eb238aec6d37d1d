import { ActionIcon, Button } from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { type Column, Grid } from "@/components/Grid";
import { listQuery, useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { type Removal, useRemoval } from "@/components/removal";
import { rowFacts } from "@/components/rowFacts";
import { Empty } from "@/components/states";
import type { ListState } from "@/model/filters";
import { text } from "@/text/access";
import { type Given, NewRules } from "./NewRules";
import { Name, scopeWords } from "./parts";
import { allRules, rolesQuery } from "./queries";

type Rule = Schema<"AccessRule">;
const { rules: words } = text;

const COLUMNS: Column<Rule>[] = [
  {
    key: "subject",
    header: words.subject,
    sort: "name",
    csv: (row) => row.subjectName,
    render: (row) => <Name>{row.subjectName || row.subjectId}</Name>,
  },
  {
    key: "type",
    header: words.type,
    sort: "subjectType",
    csv: (row) => row.subjectType,
    render: (row) => text.subjectTypes[row.subjectType],
  },
  { key: "role", header: words.role, sort: "roleName", csv: (row) => row.roleName, render: (row) => row.roleName },
  {
    key: "scopeType",
    header: words.scopeType,
    sort: "scopeType",
    csv: (row) => row.scopeType,
    render: (row) => text.scopeTypes[row.scopeType],
  },
  {
    key: "scope",
    header: words.scope,
    sort: "scopeName",
    csv: scopeWords,
    render: (row) => <Name>{scopeWords(row)}</Name>,
  },
  {
    key: "createdBy",
    header: words.authorizedBy,
    sort: "createdBy",
    csv: (row) => row.createdBy,
    render: (row) => row.createdBy || words.first,
  },
  {
    key: "created",
    header: words.created,
    sort: "createdAt",
    csv: (row) => row.createdAt,
    render: (row) => <Moment at={row.createdAt} />,
  },
];

async function deleteRules(ids: string[]): Promise<void> {
  const answer = await got(
    api.POST("/api/v1/authorization/access-rules/batch", { body: { ids: ids.map(Number), action: "delete" } }),
  );
  if (answer.succeeded.length > 0) done(words.deletedNow(answer.succeeded.length));
  if (answer.failed.length > 0) refused(new Error(answer.failed.map((each) => each.message).join("\n")), words.failed);
}

function useFilters() {
  const roles = useQuery(rolesQuery).data ?? [];
  return [
    { field: "subjectType", label: words.type, choices: Object.keys(text.subjectTypes), operators: ["==" as const] },
    { field: "roleName", label: words.role, choices: roles.map((each) => each.name), operators: ["==" as const] },
    { field: "scopeType", label: words.scopeType, choices: Object.keys(text.scopeTypes), operators: ["==" as const] },
    { field: "scopeName", label: words.scope },
    { field: "createdBy", label: words.authorizedBy },
  ];
}

function shownRules(state: ListState): Promise<Rule[]> {
  const { offset: _offset, limit: _limit, ...which } = listQuery(state);
  return allRules(which);
}

function withDelete(removal: Removal, isHeld: boolean): Column<Rule> {
  return {
    key: "actions",
    header: "",
    align: "right",
    render: (row) => (
      <ActionIcon
        variant="subtle"
        color="gray"
        size="sm"
        disabled={isHeld}
        aria-label={`${words.delete}: ${row.subjectName} ${row.roleName}`}
        onClick={() => removal.remove([String(row.id)], words.willDelete(1), () => deleteRules([String(row.id)]))}
      >
        <IconTrash size={16} />
      </ActionIcon>
    ),
  };
}

export function RulesTab() {
  const [state, setState] = useListState();
  const [selected, setSelected] = useState<Set<string>>(new Set());
  const [given, setGiven] = useState<Given | null>(null);
  const [mayCreate, mayDelete] = [useMay("access-rule.create"), useMay("access-rule.delete")];
  const isHeld = useWritesHeld();
  const removal = useRemoval(["access"]);
  const filters = useFilters();
  const query = useQuery({
    queryKey: ["access", "rules", listQuery(state)],
    queryFn: () => got(api.GET("/api/v1/authorization/access-rules", { params: { query: listQuery(state) } })),
    placeholderData: keepPreviousData,
    staleTime: 0,
  });
  const columns = mayDelete ? [...COLUMNS, withDelete(removal, isHeld)] : COLUMNS;
  return (
    <>
      <Grid
        label={text.tabs.rules}
        rows={query.data?.accessRules.filter((each) => !removal.isHidden(String(each.id)))}
        total={query.data?.totalRecords ?? null}
        hasMore={query.data?.next != null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={columns}
        idOf={(row) => String(row.id)}
        nameOf={(row) => `${row.subjectName} ${row.roleName}`}
        state={state}
        onState={setState}
        filterFields={filters}
        views="access-rules"
        allRows={() => shownRules(state)}
        card={(row) => rowFacts(columns, row)}
        empty={<Empty title={words.empty} />}
        {...(mayDelete ? { selected, onSelect: setSelected } : {})}
        bulk={
          <Button
            size="compact-sm"
            color="red"
            disabled={isHeld}
            onClick={() => {
              const ids = [...selected];
              removal.remove(ids, words.willDelete(ids.length), () => deleteRules(ids));
              setSelected(new Set());
            }}
          >
            {words.delete}
          </Button>
        }
        tools={
          mayCreate && (
            <Button
              size="xs"
              leftSection={<IconPlus size={14} />}
              disabled={isHeld}
              onClick={() => setGiven({ type: "user", ids: [] })}
            >
              {words.new}
            </Button>
          )
        }
      />
      <NewRules given={given} onClose={() => setGiven(null)} />
    </>
  );
}
