/** What the legend of the map counts. */
import { type Device, type Extra, type MapNode, type StateName, statesOf, WHOLE } from "@/components/gpuMap/devices";
import { figureOf, type Scale, STEPS, stepOf } from "@/components/gpuMap/look";

export interface Entry {
  name: string;
  /** GPUs that it holds, parts counted as parts. */
  gpus: number;
}

/** Holders by what they hold, the largest first. */
export function holders(nodes: readonly MapNode[], of: "project" | "user"): Entry[] {
  const sums = new Map<string, number>();
  for (const node of nodes)
    for (const device of node.devices)
      for (const part of device.parts)
        if (part.kind !== "promised") sums.set(part[of], (sums.get(part[of]) ?? 0) + part.milli);
  return [...sums]
    .map(([name, milli]) => ({ name, gpus: milli / WHOLE }))
    .sort((a, b) => b.gpus - a.gpus || a.name.localeCompare(b.name));
}

export interface StateCount {
  state: StateName;
  /** GPUs in and over quota; devices in the other states. */
  count: number;
}

const ALWAYS: readonly StateName[] = ["in", "over", "idle", "free"];
const ORDER: readonly StateName[] = [...ALWAYS, "leaving", "promised", "drained", "withheld", "silent"];

/** The states there are, and those that are always worth knowing. */
export function states(nodes: readonly MapNode[]): StateCount[] {
  const counts = new Map<StateName, number>();
  const add = (state: StateName, amount: number) => counts.set(state, (counts.get(state) ?? 0) + amount);
  for (const node of nodes)
    for (const device of node.devices) {
      for (const part of device.parts) if (part.kind === "held") add(part.isOver ? "over" : "in", part.milli / WHOLE);
      for (const each of statesOf(device)) if (each !== "in" && each !== "over") add(each, 1);
    }
  return ORDER.filter((each) => ALWAYS.includes(each) || (counts.get(each) ?? 0) > 0).map((state) => ({
    state,
    count: counts.get(state) ?? 0,
  }));
}

/** Devices in each of the five steps, and those that were not measured. Free ones have no age and no use. */
export function steps(nodes: readonly MapNode[], scale: Scale, extra: Extra, now: number): number[] {
  const counts = new Array<number>(STEPS + 1).fill(0);
  for (const node of nodes)
    for (const device of node.devices) {
      if (device.heldMilli === 0) continue;
      const figure = figureOf(scale, device, extra, now);
      counts[figure === null ? STEPS : stepOf(scale, figure)]! += 1;
    }
  return counts;
}

export interface Sum {
  devices: number;
  nodes: number;
  allocated: number;
  inQuota: number;
  overQuota: number;
  free: number;
  /** Of those that were measured; null: none was. */
  utilization: number | null;
  projects: Entry[];
  workloads: { id: string; name: string }[];
}

/** What selected devices are together. */
export function sumOf(devices: readonly Device[]): Sum {
  const nodes = new Map<MapNode, MapNode>();
  const workloads = new Map<string, string>();
  let inQuota = 0;
  let overQuota = 0;
  let allocated = 0;
  for (const device of devices) {
    const there = nodes.get(device.node) ?? { ...device.node, devices: [] };
    there.devices.push(device);
    nodes.set(device.node, there);
    allocated += device.heldMilli;
    for (const part of device.parts) {
      if (part.id !== null) workloads.set(part.id, part.name);
      if (part.kind === "promised") continue;
      if (part.isOver) overQuota += part.milli;
      else inQuota += part.milli;
    }
  }
  const measured = devices.filter((each) => each.utilization !== null);
  return {
    devices: devices.length,
    nodes: nodes.size,
    allocated: allocated / WHOLE,
    inQuota: inQuota / WHOLE,
    overQuota: overQuota / WHOLE,
    free: devices.filter((each) => each.heldMilli === 0 && !each.isWithheld).length,
    utilization:
      measured.length === 0 ? null : measured.reduce((sum, each) => sum + each.utilization!, 0) / measured.length,
    projects: holders([...nodes.values()], "project"),
    workloads: [...workloads].map(([id, name]) => ({ id, name })),
  };
}
