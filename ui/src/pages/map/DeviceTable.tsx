import { ActionIcon, Button } from "@mantine/core";
import { IconChevronLeft, IconChevronRight, IconDownload } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { WHOLE } from "@/components/gpuMap/devices";
import { ProjectName } from "@/components/ProjectName";
import { saveText } from "@/model/download";
import { gpus, percent } from "@/model/format";
import { text as frameText } from "@/text/frame";
import { text } from "@/text/map";
import { type DeviceRow, deviceCsv, quotaWord, stateWords } from "./deviceRows";
import classes from "./MapPage.module.css";

const ROWS = 100;

/** The map as a table, for screen readers and spreadsheets. */
export function DeviceTable({ rows }: { rows: readonly DeviceRow[] }) {
  const [chosen, setPage] = useState(0);
  const last = Math.max(0, Math.ceil(rows.length / ROWS) - 1);
  const page = Math.min(chosen, last);
  const shown = rows.slice(page * ROWS, (page + 1) * ROWS);
  return (
    <>
      <div className={classes.tableTools}>
        <Button
          size="xs"
          leftSection={<IconDownload size={14} />}
          onClick={() => saveText("devices.csv", deviceCsv(rows), "text/csv")}
        >
          {frameText.shared.csv}
        </Button>
        <span className={classes.space} />
        <span>
          {rows.length === 0
            ? frameText.shared.noMatch
            : frameText.shared.rows(page * ROWS + 1, page * ROWS + shown.length, rows.length)}
        </span>
        <ActionIcon disabled={page === 0} onClick={() => setPage(page - 1)} aria-label={frameText.shared.previous}>
          <IconChevronLeft size={16} />
        </ActionIcon>
        <ActionIcon disabled={page >= last} onClick={() => setPage(page + 1)} aria-label={frameText.shared.next}>
          <IconChevronRight size={16} />
        </ActionIcon>
      </div>
      <section className={classes.tableFrame} aria-label={text.tableCaption} tabIndex={0}>
        <table className={classes.table}>
          <caption className="visually-hidden">{text.tableCaption}</caption>
          <thead>
            <tr>
              <th scope="col">{text.columns.node}</th>
              <th scope="col" className={classes.number}>
                {text.columns.device}
              </th>
              <th scope="col">{text.columns.type}</th>
              <th scope="col">{text.columns.holder}</th>
              <th scope="col">{text.columns.project}</th>
              <th scope="col">{text.columns.user}</th>
              <th scope="col" className={classes.number}>
                {text.columns.part}
              </th>
              <th scope="col">{text.columns.quota}</th>
              <th scope="col" className={classes.number}>
                {text.columns.utilization}
              </th>
              <th scope="col">{text.columns.state}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row, number) => (
              <Row key={`${row.device.key}-${number}`} row={row} />
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}

function Row({ row }: { row: DeviceRow }) {
  const { device, part } = row;
  return (
    <tr>
      <th scope="row">
        <Link to="/nodes/$node" params={{ node: device.node.name }} search={{ cluster: device.node.cluster } as never}>
          {device.node.name}
        </Link>
      </th>
      <td className={classes.number}>{device.index}</td>
      <td>{device.node.type}</td>
      <td>
        {part?.id ? (
          <Link to="/workloads/$workload" params={{ workload: part.id }}>
            {part.name}
          </Link>
        ) : (
          (part?.name ?? "")
        )}
      </td>
      <td>{part?.id ? <ProjectName project={part.project} /> : (part?.project ?? "")}</td>
      <td>{part?.user ?? ""}</td>
      <td className={classes.number}>{part === null ? "" : gpus(part.milli / WHOLE)}</td>
      <td>{quotaWord(part)}</td>
      <td className={classes.number}>{percent(device.utilization)}</td>
      <td>{stateWords(row)}</td>
    </tr>
  );
}
