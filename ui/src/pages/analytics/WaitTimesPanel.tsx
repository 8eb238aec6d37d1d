/** How long workloads waited before they started: median and 95th percentile, and by reason. */
import { useMemo } from "react";
import type { Schema } from "@/api/client";
import { ChartTime } from "@/components/ChartTime";
import type { TimeStyle } from "@/components/chartOption";
import { Empty, Loaded } from "@/components/states";
import { clock } from "@/model/format";
import type { Line } from "@/model/series";
import { text } from "@/text/analytics";
import { text as why } from "@/text/why";
import classes from "./Analytics.module.css";
import { useWaitTimes } from "./data";
import { PanelFrame } from "./Panel";
import { ignored } from "./search";
import { type PanelsProps, useLineColours } from "./shared";

const STYLE: TimeStyle = { unit: "time", step: true };
const FOLLOWS = ["department", "project", "kind", "user"] as const;

export function WaitTimesPanel({ scope, asked, bounds, onRange, onMoment }: PanelsProps) {
  const query = useWaitTimes(scope, asked.filters);
  const colours = useLineColours();
  const lines = useMemo(() => waitLines(query.data ?? undefined), [query.data]);
  return (
    <PanelFrame id="wait-times" title={text.panels.waitTimes} caveat={ignored(asked.filters, FOLLOWS)}>
      <Loaded query={query} height={240}>
        {(data) =>
          data === null ? (
            <Empty title={text.waitTimesMissing} />
          ) : data.all.waits === 0 ? (
            <Empty title={text.waitTimesNone} />
          ) : (
            <>
              <ChartTime
                label={text.panels.waitTimes}
                lines={lines}
                bounds={bounds}
                colours={colours.plain}
                style={STYLE}
                group="analytics"
                height={200}
                onRange={onRange}
                onMoment={onMoment}
              />
              <Reasons waits={data} />
            </>
          )
        }
      </Loaded>
    </PanelFrame>
  );
}

/** A part of the time in which no wait ended has no value. */
export function waitLines(waits: Schema<"WaitTimes"> | undefined): Line[] {
  if (waits === undefined) return [];
  const step = waits.seconds * 1000;
  return [
    {
      name: text.lines.median,
      step,
      points: waits.all.parts.map((each) => [Date.parse(each.start), each.medianSeconds ?? null]),
    },
    {
      name: text.lines.p95,
      step,
      points: waits.all.parts.map((each) => [Date.parse(each.start), each.p95Seconds ?? null]),
    },
  ];
}

function Reasons({ waits }: { waits: Schema<"WaitTimes"> }) {
  const rows = [...waits.series].sort((a, b) => (b.p95Seconds ?? 0) - (a.p95Seconds ?? 0));
  return (
    <div className={classes.scroll}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{text.waitColumns.reason}</th>
            {[text.waitColumns.count, text.waitColumns.median, text.waitColumns.p95].map((each) => (
              <th key={each} scope="col" className={classes.right}>
                {each}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {[...rows, { ...waits.all, key: ALL }].map((each) => (
            <tr key={each.key}>
              <td>{reason(each.key)}</td>
              <td className={classes.right}>{each.waits}</td>
              <td className={classes.right}>{clock(seconds(each.medianSeconds))}</td>
              <td className={classes.right}>{clock(seconds(each.p95Seconds))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {!waits.isComplete && <p className={classes.hint}>{text.waitsIncomplete}</p>}
    </div>
  );
}

const ALL = "\0all";
const seconds = (value: number | null | undefined): number | null => (value == null ? null : value * 1000);

function reason(key: string): string {
  if (key === ALL) return text.waitsAll;
  if (key === "") return text.waitsAtOnce;
  return why.causes[key] ?? (why.reasons as Record<string, string>)[key] ?? key;
}
