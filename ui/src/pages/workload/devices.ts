/** The devices of a workload among those of its nodes. Pure. */
import type { Schema } from "@/api/client";

export interface DeviceCell {
  index: number;
  mineMilli: number;
  othersMilli: number;
  utilization: number | null;
  memoryBytes: number | null;
}

export interface NodeStrip {
  name: string;
  cells: DeviceCell[];
}

export function devicesOf(
  page: Schema<"DevicePage">,
  workloadId: string,
  measured?: Schema<"MeasuredWorkload">,
): NodeStrip[] {
  const mine = page.workloads.ids.indexOf(workloadId);
  if (mine < 0) return [];
  const strips: NodeStrip[] = [];
  for (const node of page.nodes) {
    const holders = [...node.holders, ...(node.leaving ?? [])];
    if (!holders.some(([workload]) => workload === mine)) continue;
    const cells = Array.from({ length: node.gpus }, (_, index) => cellOf(index, mine, holders, node, measured));
    strips.push({ name: node.name, cells });
  }
  return strips;
}

function cellOf(
  index: number,
  mine: number,
  holders: Schema<"DeviceNode">["holders"],
  node: Schema<"DeviceNode">,
  measured: Schema<"MeasuredWorkload"> | undefined,
): DeviceCell {
  let mineMilli = 0;
  let othersMilli = 0;
  for (const [workload, milli, devices] of holders) {
    if (!devices.includes(index)) continue;
    if (workload === mine) mineMilli += milli;
    else othersMilli += milli;
  }
  const seen = measured?.pods.find((each) => each.node === node.name)?.devices.find((each) => each.index === index);
  return {
    index,
    mineMilli: Math.min(1000, mineMilli),
    othersMilli: Math.min(1000 - Math.min(1000, mineMilli), othersMilli),
    utilization: seen?.utilization ?? node.utilization?.[index] ?? null,
    memoryBytes: seen?.memoryBytes ?? null,
  };
}
