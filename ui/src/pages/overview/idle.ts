/** Who holds devices that are idle, from one answer with all devices. Pure. */
import type { Schema } from "@/api/client";

export interface IdleHolder {
  id: string;
  name: string;
  project: string;
  devices: number;
}

/** Those with most idle devices first. Work of projects that the reader may not see has no name and is left out. */
export function idleHolders(page: Schema<"DevicePage">): IdleHolder[] {
  const counted = new Map<number, number>();
  for (const node of page.nodes) {
    if (node.idle === undefined || node.idle.length === 0) continue;
    const idle = new Set(node.idle);
    for (const [workload, , devices] of node.holders) {
      const found = devices.filter((each) => idle.has(each)).length;
      if (found > 0 && workload >= 0) counted.set(workload, (counted.get(workload) ?? 0) + found);
    }
  }
  return [...counted]
    .sort((a, b) => b[1] - a[1])
    .map(([workload, devices]) => ({
      id: page.workloads.ids[workload]!,
      name: page.workloads.names[workload]!,
      project: page.projects[page.workloads.projects[workload]!]!,
      devices,
    }));
}

/** Devices by type: `16 × Tesla V100`, the most first. */
export function typesOf(page: Schema<"DevicePage">): [string, number][] {
  const counted = new Map<string, number>();
  for (const node of page.nodes) if (node.gpus > 0) counted.set(node.type, (counted.get(node.type) ?? 0) + node.gpus);
  return [...counted].sort((a, b) => b[1] - a[1]).slice(0, 2);
}

export function withheldIn(page: Schema<"DevicePage">): number {
  return page.nodes.reduce((sum, each) => sum + (each.withheld?.length ?? 0), 0);
}
