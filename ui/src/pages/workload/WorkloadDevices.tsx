import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import type { Schema } from "@/api/client";
import { devicesQuery, useProjectColour } from "@/api/queries";
import { bytes, percent } from "@/model/format";
import { text } from "@/text/workload";
import { type DeviceCell, devicesOf } from "./devices";
import type { Workload } from "./queries";
import classes from "./Workload.module.css";

/** The nodes it runs on, device by device: its own parts in its project's colour, those of others in grey. */
export function WorkloadDevices({ workload, measured }: { workload: Workload; measured?: Schema<"MeasuredWorkload"> }) {
  const page = useQuery(devicesQuery).data;
  const colour = useProjectColour()(workload.projectName);
  const nodes = page === undefined ? [] : devicesOf(page, workload.id, measured);
  if (nodes.length === 0) return null;
  return (
    <div className={classes.devices}>
      <h3 className={classes.subtitle}>
        {text.running.devices}{" "}
        <Link to="/map" search={{ find: workload.name } as never} className={classes.subtitleLink}>
          {text.running.onMap}
        </Link>
      </h3>
      {nodes.map((node) => (
        <div key={node.name} className={classes.node}>
          <Link to="/nodes/$node" params={{ node: node.name }} className={classes.nodeName}>
            {node.name}
          </Link>
          <ol className={classes.strip}>
            {node.cells.map((cell) => (
              <Device key={cell.index} cell={cell} colour={colour} name={workload.name} />
            ))}
          </ol>
        </div>
      ))}
    </div>
  );
}

function Device({ cell, colour, name }: { cell: DeviceCell; colour: string; name: string }) {
  const isMine = cell.mineMilli > 0;
  const words = isMine
    ? text.running.deviceMine(
        cell.index,
        name,
        (cell.mineMilli / 1000).toFixed(2),
        percent(cell.utilization),
        bytes(cell.memoryBytes),
      )
    : text.running.deviceOther(cell.index, (cell.othersMilli / 1000).toFixed(2));
  return (
    <li
      className={clsx(classes.device, isMine && classes.mine)}
      style={{ "--colour": colour } as React.CSSProperties}
      title={words}
    >
      <span className={classes.deviceMine} style={{ width: `${cell.mineMilli / 10}%` }} />
      <span className={classes.deviceOthers} style={{ width: `${cell.othersMilli / 10}%` }} />
      <span className={classes.deviceIndex}>{cell.index}</span>
      {isMine && <span className={classes.deviceUse}>{percent(cell.utilization)}</span>}
      <span className="visually-hidden">{words}</span>
    </li>
  );
}
