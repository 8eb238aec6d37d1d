/** A chart with its data: as a picture, a table, CSV and PNG. The library is loaded when the first one is shown. */
import { ActionIcon, Menu, Table } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import type { EChartsCoreOption, EChartsType } from "echarts/core";
import { useEffect, useRef, useState } from "react";
import { csvOf, saveDataUrl, saveText } from "@/model/download";
import { text } from "@/text/frame";
import { useScheme } from "@/theme/scheme";
import classes from "./Chart.module.css";

export interface ChartTable {
  columns: string[];
  rows: (string | number | null)[][];
}

interface Props {
  /** Without colours of text and axes: those follow the scheme. */
  option: EChartsCoreOption;
  /** What is shown, in numbers. */
  table: ChartTable;
  /** For screen readers and file names. */
  label: string;
  height?: number;
  /** Charts of one group share cursor and zoom. */
  group?: string;
  onZoom?: (from: number, to: number) => void;
  onClick?: (point: { seriesName?: string; name?: string; value?: unknown; dataIndex?: number }) => void;
  /** The chart, for what is drawn over it; null when it is gone. */
  onReady?: (chart: EChartsType | null) => void;
}

export function Chart({ option, table, label, height = 220, group, onZoom, onClick, onReady }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const chart = useRef<EChartsType | null>(null);
  const [isTable, showTable] = useState(false);
  const [isReady, setReady] = useState(false);
  const scheme = useScheme();
  const handlers = useRef({ onZoom, onClick, onReady });
  handlers.current = { onZoom, onClick, onReady };

  useEffect(() => {
    if (isTable || box.current === null) return;
    const element = box.current;
    let isGone = false;
    let observer: ResizeObserver | null = null;
    void import("./echarts").then(({ echarts, themed }) => {
      if (isGone) return;
      const made = echarts.init(element, themed(scheme), { renderer: "canvas" });
      chart.current = made;
      if (group !== undefined) {
        made.group = group;
        echarts.connect(group);
      }
      made.on("datazoom", () => {
        const [zoom] = (made.getOption().dataZoom ?? []) as { startValue?: number; endValue?: number }[];
        if (zoom?.startValue !== undefined && zoom.endValue !== undefined)
          handlers.current.onZoom?.(zoom.startValue, zoom.endValue);
      });
      made.on("click", (event) => handlers.current.onClick?.(event as never));
      observer = new ResizeObserver(() => made.resize());
      observer.observe(element);
      setReady(true);
      handlers.current.onReady?.(made);
    });
    return () => {
      isGone = true;
      handlers.current.onReady?.(null);
      observer?.disconnect();
      chart.current?.dispose();
      chart.current = null;
      setReady(false);
    };
  }, [isTable, scheme, group]);

  useEffect(() => {
    if (isReady) chart.current?.setOption(option, { notMerge: true, lazyUpdate: true });
  }, [option, isReady]);

  const file = label.toLowerCase().replace(/[^a-z0-9]+/g, "-");
  const savePng = () => {
    const url = chart.current?.getDataURL({
      type: "png",
      pixelRatio: 2,
      backgroundColor: scheme === "dark" ? "#171B21" : "#FFFFFF",
    });
    if (url) saveDataUrl(`${file}.png`, url);
  };
  return (
    <div className={classes.chart}>
      <Menu position="bottom-end" withinPortal>
        <Menu.Target>
          <ActionIcon
            className={classes.menu}
            variant="subtle"
            color="gray"
            size="sm"
            aria-label={`${label}: ${text.shared.details}`}
          >
            <IconDots size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => showTable(!isTable)}>{isTable ? text.shared.chart : text.shared.table}</Menu.Item>
          <Menu.Item onClick={() => saveText(`${file}.csv`, csvOf(table.columns, table.rows), "text/csv")}>
            {text.shared.csv}
          </Menu.Item>
          {!isTable && <Menu.Item onClick={savePng}>{text.shared.png}</Menu.Item>}
        </Menu.Dropdown>
      </Menu>
      {isTable ? (
        <section style={{ maxHeight: height, overflow: "auto" }} tabIndex={0} aria-label={label}>
          <Table striped fz="xs">
            <Table.Thead>
              <Table.Tr>
                {table.columns.map((each) => (
                  <Table.Th key={each}>{each}</Table.Th>
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {table.rows.map((row, number) => (
                <Table.Tr key={number}>
                  {row.map((cell, column) => (
                    <Table.Td key={column}>{cell ?? text.shared.unknown}</Table.Td>
                  ))}
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </section>
      ) : (
        <div ref={box} style={{ height }} role="img" aria-label={label} data-chart={isReady ? "ready" : "loading"} />
      )}
    </div>
  );
}
