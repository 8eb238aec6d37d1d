import { Button, Select } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, got } from "@/api/client";
import { PAGE_MAX } from "@/api/pages";
import { projectsQuery } from "@/api/queries";
import { Grid } from "@/components/Grid";
import type { FilterField } from "@/components/GridToolbar";
import { listQuery, useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { Page } from "@/components/Page";
import { Empty } from "@/components/states";
import type { Filter, ListState } from "@/model/filters";
import { text } from "@/text/decisions";
import { CountsCard } from "./CountsCard";
import { COLUMNS } from "./columns";
import { DecisionKindBadge, DecisionSentence } from "./DecisionSentence";
import classes from "./DecisionsPage.module.css";
import type { Decision } from "./grouping";
import { boundsOf, DEFAULT_PERIOD, PERIODS, withPeriod } from "./period";

const MINUTE_MS = 60_000;
const CSV_MOST = 20_000;

/** Every decision of the scheduler: what, why, with which figures. */
export function DecisionsPage() {
  const [state, setState] = useListState();
  const [period, setPeriod] = usePeriod();
  const minute = Math.ceil(Date.now() / MINUTE_MS) * MINUTE_MS;
  const filters = useMemo(() => withPeriod(period, state.filters, minute), [period, state.filters, minute]);
  const bounds = useMemo(() => boundsOf(period, state.filters, minute), [period, state.filters, minute]);
  const asked = { ...state, filters };
  const query = useQuery({
    queryKey: ["decisions", "page", asked],
    queryFn: () => pageOf(asked),
    placeholderData: keepPreviousData,
  });
  const pickTime = (from: string, until: string) => {
    const others = state.filters.filter((each) => each.field !== "at");
    const time: Filter[] = [
      { field: "at", operator: ">=", value: from },
      { field: "at", operator: "<=", value: until },
    ];
    setState({ filters: [...others, ...time] });
  };
  return (
    <Page title={text.title} lead={text.lead}>
      <CountsCard bounds={bounds} filters={state.filters} search={state.search} onPick={pickTime} />
      <Grid<Decision>
        label={text.rows}
        rows={query.data?.decisions}
        hasMore={query.data?.next != null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={COLUMNS}
        idOf={(row) => row.id}
        nameOf={(row) => row.workloadName}
        state={state}
        onState={setState}
        filterFields={useFilterFields()}
        allRows={() => allOf(asked)}
        card={(row) => <DecisionCard decision={row} />}
        empty={<NoDecisions />}
        tools={
          <Select
            size="xs"
            w={150}
            aria-label={text.period}
            allowDeselect={false}
            value={state.filters.some((each) => each.field === "at") ? null : period}
            placeholder={text.chosenTime}
            data={[...Object.keys(PERIODS), "all"].map((each) => ({ value: each, label: text.periods[each]! }))}
            onChange={(value) => {
              if (value === null) return;
              setPeriod(value);
            }}
          />
        }
      />
    </Page>
  );
}

function usePeriod(): [string, (period: string) => void] {
  const raw = useSearch({ strict: false }) as { period?: unknown };
  const navigate = useNavigate();
  const known = typeof raw.period === "string" && (Object.hasOwn(PERIODS, raw.period) || raw.period === "all");
  const set = (period: string) =>
    void navigate({
      to: ".",
      replace: true,
      search: (before: Record<string, unknown>) => {
        const { page: _page, f, ...others } = before;
        const kept = (Array.isArray(f) ? f : f === undefined ? [] : [f]).filter(
          (each) => !/^at[<>]=/.test(String(each)),
        );
        return { ...others, ...(kept.length > 0 ? { f: kept } : {}), period };
      },
    } as never);
  return [known ? (raw.period as string) : DEFAULT_PERIOD, set];
}

function useFilterFields(): FilterField[] {
  const projects = useQuery(projectsQuery).data;
  return useMemo(
    () => [
      { field: "kind", label: text.columns.kind, choices: Object.keys(text.kinds), operators: ["==", "!="] },
      { field: "projectId", label: text.columns.project, choices: (projects ?? []).map((each) => each.id) },
      { field: "workloadName", label: text.columns.workload },
      { field: "submittedBy", label: text.columns.user },
      { field: "at", label: text.columns.at, operators: [">=", "<="] },
    ],
    [projects],
  );
}

async function pageOf(state: ListState) {
  const { sortBy: _by, sortOrder, ...query } = listQuery(state);
  return got(api.GET("/api/v1/decisions", { params: { query: { ...query, sortOrder: sortOrder ?? "desc" } } }));
}

/** For the CSV file, page by page. */
async function allOf(state: ListState): Promise<Decision[]> {
  const all: Decision[] = [];
  for (let page = 1; all.length < CSV_MOST; page += 1) {
    const answer = await pageOf({ ...state, page, size: PAGE_MAX });
    all.push(...answer.decisions);
    if (answer.next == null) break;
  }
  return all;
}

function DecisionCard({ decision }: { decision: Decision }) {
  return (
    <div className={classes.card}>
      <span className={classes.cardHead}>
        <DecisionKindBadge kind={decision.kind} />
        <span className={classes.time}>
          <Moment at={decision.at} />
        </span>
      </span>
      <span className={classes.sentence}>
        <DecisionSentence decision={decision} />
      </span>
    </div>
  );
}

function NoDecisions() {
  return (
    <Empty
      title={text.empty}
      hint={text.emptyHint}
      action={
        <Button component={Link} to="/submit">
          {text.submit}
        </Button>
      }
    />
  );
}
