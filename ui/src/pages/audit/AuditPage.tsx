import { Button, Menu, Select, TextInput } from "@mantine/core";
import { IconDownload, IconRefresh } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { api, fetchText, got } from "@/api/client";
import { allRows, PAGE_MAX } from "@/api/pages";
import { useMay, useMe } from "@/api/queries";
import { refused } from "@/components/answers";
import { Grid } from "@/components/Grid";
import { listQuery, useListState } from "@/components/listState";
import { NotOpen } from "@/components/NotOpen";
import { Page } from "@/components/Page";
import { rowFacts } from "@/components/rowFacts";
import { Empty } from "@/components/states";
import { saveText } from "@/model/download";
import { filterBy, type ListState } from "@/model/filters";
import { text } from "@/text/audit";
import { text as frame } from "@/text/frame";
import { ChainResult, useVerification, VerifyButton } from "./Chain";
import { PERIODS, type Period, periodBounds } from "./changes";
import { COLUMNS, FILTERS } from "./columns";
import { EntryPane } from "./Entry";

type Bounds = { start?: string; end?: string };

/** The period and the entry that is open, from the address. */
function usePeriod() {
  const raw = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const word = (key: string) => (typeof raw[key] === "string" || typeof raw[key] === "number" ? String(raw[key]) : "");
  const period = PERIODS.find((each) => each === raw.period) ?? "30d";
  const set = (change: Record<string, string | undefined>) =>
    void navigate({ to: ".", replace: true, search: (before: object) => ({ ...before, ...change }) } as never);
  const [from, to] = [word("from"), word("to")];
  const bounds = useMemo(() => {
    const minute = Math.floor(Date.now() / 60_000) * 60_000; // the key of the query stays the same for a while
    return periodBounds(period, { from: from || undefined, to: to || undefined }, minute);
  }, [period, from, to]);
  return { period, from, to, bounds, entry: word("entry") || null, set };
}

export function AuditPage() {
  const mayRead = useMay("audit.read");
  const me = useMe();
  if (me === undefined) return <Page title={text.title}>{null}</Page>;
  return mayRead ? <Log /> : <NotOpen title={text.title} />;
}

function Log() {
  const [state, setState] = useListState();
  const { period, from, to, bounds, entry, set } = usePeriod();
  const chain = useVerification();
  const query = useQuery({
    queryKey: ["audit", "list", bounds, listQuery(state)],
    queryFn: () => got(api.GET("/api/v1/audit/log", { params: { query: { ...bounds, ...listQuery(state) } } })),
    placeholderData: keepPreviousData,
    staleTime: 0,
  });
  return (
    <Page
      title={text.title}
      lead={text.lead}
      actions={
        <>
          <VerifyButton isBusy={chain.isBusy} onVerify={() => void chain.verify()} />
          <Download state={state} bounds={bounds} />
        </>
      }
    >
      {chain.result && <ChainResult result={chain.result} onClose={chain.close} />}
      <Grid
        label={text.title}
        rows={query.data?.entries}
        total={query.data?.total ?? null}
        hasMore={query.data?.next != null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={COLUMNS}
        idOf={(row) => row.id}
        nameOf={(row) => row.id}
        state={state}
        onState={setState}
        filterFields={FILTERS}
        views="audit"
        onOpen={(row) => set({ entry: row.id })}
        allRows={() => all(state, bounds)}
        card={(row) => (
          <>
            {rowFacts(COLUMNS, row)}
            <Button size="compact-sm" mt={8} onClick={() => set({ entry: row.id })}>
              {frame.shared.details}
            </Button>
          </>
        )}
        empty={<Empty title={text.empty} hint={text.emptyHint} />}
        tools={
          <>
            <PeriodChoice period={period} from={from} to={to} onChange={set} />
            <Button size="xs" leftSection={<IconRefresh size={14} />} onClick={() => void query.refetch()}>
              {text.refresh}
            </Button>
          </>
        }
      />
      <EntryPane id={entry} onClose={() => set({ entry: undefined })} />
    </Page>
  );
}

interface ChoiceProps {
  period: Period;
  from: string;
  to: string;
  onChange: (change: Record<string, string | undefined>) => void;
}

function PeriodChoice({ period, from, to, onChange }: ChoiceProps) {
  return (
    <>
      <Select
        size="xs"
        w={150}
        aria-label={text.period}
        data={PERIODS.map((value) => ({ value, label: text.periods[value] }))}
        value={period}
        allowDeselect={false}
        onChange={(next) => onChange({ period: next ?? "30d", page: undefined })}
      />
      {period === "custom" && (
        <>
          <TextInput
            size="xs"
            type="date"
            aria-label={text.from}
            value={from}
            onChange={(event) => onChange({ from: event.currentTarget.value || undefined })}
          />
          <TextInput
            size="xs"
            type="date"
            aria-label={text.to}
            value={to}
            onChange={(event) => onChange({ to: event.currentTarget.value || undefined })}
          />
        </>
      )}
    </>
  );
}

const FORMS = [
  { type: "csv", label: text.asCsv, mime: "text/csv" },
  { type: "json", label: text.asJson, mime: "application/json" },
  { type: "jsonl", label: text.asLines, mime: "application/x-ndjson" },
] as const;

/** The whole log of the period, with the filters that are set: the server writes the file. */
function Download({ state, bounds }: { state: ListState; bounds: Bounds }) {
  const save = async ({ type, mime }: (typeof FORMS)[number]) => {
    const query = new URLSearchParams({ ...bounds, fileType: type });
    const filters = filterBy(state.filters);
    if (filters !== undefined) query.set("filterBy", filters);
    if (state.search !== "") query.set("search", state.search);
    try {
      saveText(`audit.${type}`, await fetchText(`/api/v1/audit/log/file?${query}`), mime);
    } catch (error) {
      refused(error);
    }
  };
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button leftSection={<IconDownload size={16} />}>{text.download}</Button>
      </Menu.Target>
      <Menu.Dropdown>
        {FORMS.map((each) => (
          <Menu.Item key={each.type} onClick={() => void save(each)}>
            {each.label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

const CSV_ROWS = 20_000;

function all(state: ListState, bounds: Bounds) {
  const { offset: _offset, limit: _limit, ...rest } = listQuery(state);
  return allRows(
    (offset) =>
      got(api.GET("/api/v1/audit/log", { params: { query: { ...bounds, ...rest, offset, limit: PAGE_MAX } } })),
    (page) => page.entries,
    CSV_ROWS,
  );
}
