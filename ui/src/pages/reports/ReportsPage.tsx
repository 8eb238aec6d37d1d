/** Reports of consumption that are kept. */
import { ActionIcon, Button, Group } from "@mantine/core";
import { IconDownload, IconPlus, IconTrash } from "@tabler/icons-react";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { withUndo } from "@/components/answers";
import { type Column, Grid } from "@/components/Grid";
import { listQuery, useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { Page } from "@/components/Page";
import { StatusBadge } from "@/components/StatusBadge";
import { Empty } from "@/components/states";
import { moment } from "@/model/format";
import { text } from "@/text/reports";
import { NewReport } from "./NewReport";
import classes from "./Reports.module.css";

type Report = Schema<"Report">;

/** Samples arrive every ten seconds: a report that is being made is looked at again then. */
const KEY = ["measured", "reports"] as const;
const SHAPES: Record<Report["status"], string> = {
  Pending: "Pending",
  Processing: "Creating",
  Ready: "Completed",
  Failed: "Failed",
};
const STATUSES = Object.keys(SHAPES);

export function ReportsPage() {
  const [state, setState] = useListState();
  const [isMaking, make] = useState(false);
  const [hidden, hide] = useState<readonly string[]>([]);
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const query = useQuery({
    queryKey: [...KEY, listQuery(state)],
    placeholderData: keepPreviousData,
    queryFn: () => got(api.GET("/api/v1/org-unit/reports", { params: { query: listQuery(state) } })),
  });
  const reread = () => queries.invalidateQueries({ queryKey: KEY });
  const remove = (report: Report) => {
    hide((all) => [...all, report.id]);
    withUndo(
      text.removed(report.name),
      async () => {
        await got(api.DELETE("/api/v1/org-unit/reports/{report_id}", { params: { path: { report_id: report.id } } }));
        await reread();
      },
      () => hide((all) => all.filter((each) => each !== report.id)),
    );
  };
  // biome-ignore lint/correctness/useExhaustiveDependencies: the columns call what is current
  const columns = useMemo(
    () => columnsOf((report) => <Actions report={report} isHeld={isHeld} onRemove={remove} />),
    [isHeld],
  );
  const button = (
    <Button variant="filled" leftSection={<IconPlus size={16} />} onClick={() => make(true)} disabled={isHeld}>
      {text.make}
    </Button>
  );
  return (
    <Page title={text.title} lead={text.lead} actions={button}>
      <Grid
        label={text.title}
        rows={query.data?.reports.filter((each) => !hidden.includes(each.id))}
        hasMore={query.data?.next != null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={columns}
        idOf={(each) => each.id}
        nameOf={(each) => each.name}
        state={state}
        onState={setState}
        filterFields={[
          { field: "name", label: text.columns.name },
          { field: "status", label: text.columns.status, choices: STATUSES },
          { field: "createdBy", label: text.columns.createdBy },
        ]}
        views="reports"
        empty={
          <Empty
            title={text.empty}
            hint={text.emptyHint}
            action={<Button onClick={() => make(true)}>{text.make}</Button>}
          />
        }
        card={(each) => (
          <div className={classes.card}>
            <div className={classes.line}>
              <strong>{each.name}</strong>
              <Status report={each} />
            </div>
            <div className={classes.line}>{period(each)}</div>
            <div className={classes.line}>
              {groupOf(each)}
              <Actions report={each} isHeld={isHeld} onRemove={remove} />
            </div>
          </div>
        )}
      />
      {isMaking && (
        <NewReport
          onClose={() => make(false)}
          onMade={() => {
            make(false);
            void reread();
          }}
        />
      )}
    </Page>
  );
}

const groupOf = (report: Report): string => (report.groupBy == null ? text.allGroups : text.groups[report.groupBy]);
const period = (report: Report): string => text.period(moment(report.start), moment(report.end));

function Status({ report }: { report: Report }) {
  return (
    <>
      <StatusBadge phase={SHAPES[report.status]} word={report.status} />
      {report.statusMessage !== "" && <div className={classes.message}>{report.statusMessage}</div>}
    </>
  );
}

interface ActionsProps {
  report: Report;
  isHeld: boolean;
  onRemove: (report: Report) => void;
}

function Actions({ report, isHeld, onRemove }: ActionsProps) {
  return (
    <Group gap={4} wrap="nowrap" justify="flex-end">
      {report.status === "Ready" && (
        <ActionIcon
          component="a"
          href={`/api/v1/org-unit/reports/${encodeURIComponent(report.id)}/file`}
          download={`${report.name}.csv`}
          variant="subtle"
          color="gray"
          aria-label={text.downloadOf(report.name)}
          title={text.download}
        >
          <IconDownload size={16} />
        </ActionIcon>
      )}
      <ActionIcon
        variant="subtle"
        color="gray"
        disabled={isHeld}
        onClick={() => onRemove(report)}
        aria-label={text.remove(report.name)}
      >
        <IconTrash size={16} />
      </ActionIcon>
    </Group>
  );
}

function columnsOf(actions: (report: Report) => React.ReactNode): Column<Report>[] {
  const words = text.columns;
  return [
    {
      key: "name",
      header: words.name,
      sort: "name",
      csv: (each) => each.name,
      render: (each) => (
        <span className={classes.name} title={each.name}>
          {each.name}
        </span>
      ),
    },
    {
      key: "description",
      header: words.description,
      csv: (each) => each.description,
      render: (each) => (
        <span className={classes.name} title={each.description}>
          {each.description}
        </span>
      ),
    },
    {
      key: "status",
      header: words.status,
      sort: "status",
      csv: (each) => each.status,
      render: (each) => <Status report={each} />,
    },
    { key: "type", header: words.type, csv: () => text.type, render: () => text.type },
    { key: "groupBy", header: words.groupBy, csv: groupOf, render: groupOf },
    {
      key: "period",
      header: words.period,
      csv: (each) => `${each.start}/${each.end}`,
      render: period,
    },
    {
      key: "createdBy",
      header: words.createdBy,
      sort: "createdBy",
      csv: (each) => each.createdBy,
      render: (each) => each.createdBy,
    },
    {
      key: "createdAt",
      header: words.createdAt,
      sort: "createdAt",
      csv: (each) => each.createdAt,
      render: (each) => <Moment at={each.createdAt} />,
    },
    { key: "actions", header: words.actions, align: "right", render: actions },
  ];
}
