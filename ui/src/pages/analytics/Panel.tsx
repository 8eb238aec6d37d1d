/** One chart of Analytics in its card: what it cannot filter is said, an empty one says so. */
import { ActionIcon } from "@mantine/core";
import { IconLink } from "@tabler/icons-react";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { done } from "@/components/answers";
import { Card } from "@/components/Card";
import { ChartTime } from "@/components/ChartTime";
import type { TimeMark, TimeStyle } from "@/components/chartOption";
import { Empty, Loaded } from "@/components/states";
import type { Bounds } from "@/model/period";
import { hasPoints, type Line } from "@/model/series";
import { text } from "@/text/analytics";
import classes from "./Analytics.module.css";

interface FrameProps {
  id: string;
  title: string;
  note?: ReactNode;
  /** What it does not follow, in words. */
  caveat?: string | null;
  children: ReactNode;
}

export function PanelFrame({ id, title, note, caveat, children }: FrameProps) {
  const copy = () => {
    const { origin, pathname, search } = location;
    void navigator.clipboard.writeText(`${origin}${pathname}${search}#${id}`).then(() => done(text.chart.linkCopied));
  };
  return (
    <div id={id} className={classes.panel}>
      <Card
        title={title}
        note={
          <>
            {note}
            {caveat && <span className={classes.caveat}>{note ? ` · ${caveat}` : caveat}</span>}
          </>
        }
        aside={
          <ActionIcon variant="subtle" color="gray" size="sm" onClick={copy} aria-label={text.chart.copyLink(title)}>
            <IconLink size={16} />
          </ActionIcon>
        }
      >
        {children}
      </Card>
    </div>
  );
}

interface Props extends Omit<FrameProps, "children"> {
  query: UseQueryResult<unknown>;
  lines: Line[];
  bounds: Bounds;
  colours: (name: string) => string;
  style: TimeStyle;
  marks?: TimeMark[];
  onRange: (from: number, to: number) => void;
  onMoment?: (at: number) => void;
}

const HEIGHT = 240;

export function Panel({ query, lines, bounds, colours, style, marks, onRange, onMoment, ...frame }: Props) {
  return (
    <PanelFrame {...frame}>
      <Loaded query={query} height={HEIGHT}>
        {() =>
          hasPoints(lines) ? (
            <ChartTime
              label={frame.title}
              lines={lines}
              bounds={bounds}
              colours={colours}
              style={style}
              {...(marks === undefined ? {} : { marks })}
              group="analytics"
              height={HEIGHT}
              onRange={onRange}
              {...(onMoment === undefined ? {} : { onMoment })}
            />
          ) : (
            <Empty title={text.chart.nothing} hint={text.chart.nothingHint} />
          )
        }
      </Loaded>
    </PanelFrame>
  );
}
