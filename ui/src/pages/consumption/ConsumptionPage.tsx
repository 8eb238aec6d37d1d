/** What was consumed, by whom, and what it cost. */
import { Button, Group, MultiSelect, Select } from "@mantine/core";
import { IconDownload, IconPrinter } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { clustersQuery } from "@/api/queries";
import { ChartPeriod } from "@/components/ChartPeriod";
import { Page } from "@/components/Page";
import { Empty, Failed, Loading } from "@/components/states";
import { useChosenCluster } from "@/frame/cluster";
import { moment } from "@/model/format";
import { boundsOf, type Preset } from "@/model/period";
import classesOfCharts from "@/pages/analytics/Analytics.module.css";
import { type Scope, useUsage } from "@/pages/analytics/data";
import { FilterFields } from "@/pages/analytics/Toolbar";
import { text } from "@/text/consumption";
import { Prices } from "./Prices";
import { fileAddress, type GroupName, type IntervalName, useWanted } from "./search";
import { Tiles } from "./Tiles";
import { UsageCharts } from "./UsageCharts";
import { UsageTable } from "./UsageTable";

const PRESETS: Preset[] = ["24h", "7d", "30d", "month", "last-month", "1y"];
const GROUPS = Object.entries(text.groups).map(([value, label]) => ({ value, label }));
const INTERVALS = Object.entries(text.intervals).map(([value, label]) => ({ value, label }));

export function ConsumptionPage() {
  const [wanted, want] = useWanted();
  const cluster = useChosenCluster();
  const clusters = useQuery(clustersQuery).data;
  const scope: Scope = {
    clusterId: cluster?.uuid,
    clusterName: (clusters?.length ?? 0) > 1 ? cluster?.name : undefined,
    period: wanted.period,
    samples: 100,
  };
  const interval = wanted.interval === "none" ? undefined : wanted.interval;
  const usage = useUsage(scope, wanted.filters, wanted.groupBy.join(","), interval);
  const at = usage.dataUpdatedAt || Date.now();
  const bounds = useMemo(() => boundsOf(wanted.period, at), [wanted.period, at]);
  const answer = usage.data;
  return (
    <Page
      title={text.title}
      lead={answer ? text.counted(moment(answer.start), moment(answer.end), moment(answer.at)) : text.lead}
      actions={
        <Group gap={8}>
          <Button
            component="a"
            href={fileAddress(wanted, bounds, "csv")}
            download
            leftSection={<IconDownload size={16} />}
          >
            {text.csv}
          </Button>
          <Button
            component="a"
            href={fileAddress(wanted, bounds, "html")}
            target="_blank"
            rel="noreferrer"
            leftSection={<IconPrinter size={16} />}
          >
            {text.print}
          </Button>
        </Group>
      }
    >
      <div className={classesOfCharts.toolbar}>
        <ChartPeriod period={wanted.period} presets={PRESETS} onChange={(period) => want({ period })} />
        <FilterFields asked={{ ...wanted, compare: false }} onAsk={({ filters }) => filters && want({ filters })} />
      </div>
      {answer !== undefined ? (
        <Tiles amounts={answer.total} />
      ) : usage.isError ? (
        <Failed error={usage.error} onRetry={() => void usage.refetch()} />
      ) : (
        <Loading height={92} />
      )}
      <UsageCharts scope={scope} filters={wanted.filters} bounds={bounds} onPeriod={(period) => want({ period })} />
      <UsageTable
        answer={answer}
        wanted={wanted}
        tools={
          <>
            <MultiSelect
              size="xs"
              aria-label={text.groupBy}
              data={GROUPS}
              value={wanted.groupBy}
              onChange={(groupBy) => groupBy.length > 0 && want({ groupBy: groupBy as GroupName[] })}
              miw={180}
              maw={420}
            />
            <Select
              size="xs"
              aria-label={text.interval}
              data={INTERVALS}
              value={wanted.interval}
              onChange={(value) => value !== null && want({ interval: value as IntervalName })}
              allowDeselect={false}
              w={140}
            />
          </>
        }
        empty={<Empty title={text.empty} hint={text.emptyHint} />}
      />
      <Prices />
    </Page>
  );
}
