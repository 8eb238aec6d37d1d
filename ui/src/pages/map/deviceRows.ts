/** Devices as rows: one for each holder of each device, one for a device without any. */
import { type Device, type MapNode, type Part, statesOf, WHOLE } from "@/components/gpuMap/devices";
import { csvOf } from "@/model/download";
import { text } from "@/text/map";

export interface DeviceRow {
  device: Device;
  part: Part | null;
}

export function rowsOf(nodes: readonly MapNode[], isShown: (device: Device) => boolean): DeviceRow[] {
  return nodes.flatMap((node) =>
    node.devices
      .filter(isShown)
      .flatMap((device): DeviceRow[] =>
        device.parts.length === 0 ? [{ device, part: null }] : device.parts.map((part) => ({ device, part })),
      ),
  );
}

export function stateWords({ device }: DeviceRow): string {
  return statesOf(device)
    .filter((each) => each !== "in" && each !== "over")
    .map((each) => text.states[each])
    .join(", ");
}

export const quotaWord = (part: Part | null): string =>
  part === null || part.kind !== "held" ? "" : part.isOver ? text.states.over : text.states.in;

export function deviceCsv(rows: readonly DeviceRow[]): string {
  const { columns } = text;
  return csvOf(
    [
      columns.node,
      columns.device,
      columns.type,
      columns.pool,
      columns.state,
      columns.holder,
      columns.project,
      columns.user,
      columns.part,
      columns.quota,
      columns.utilization,
    ],
    rows.map((row) => [
      row.device.node.name,
      row.device.index,
      row.device.node.type,
      row.device.node.pool,
      stateWords(row),
      row.part?.name,
      row.part?.project,
      row.part?.user,
      row.part === null ? null : row.part.milli / WHOLE,
      quotaWord(row.part),
      row.device.utilization,
    ]),
  );
}
