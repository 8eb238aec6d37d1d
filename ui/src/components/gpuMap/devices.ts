/** Devices as the map draws them: who holds which part of each, and what state it is in. Made from one answer of
 * `GET /api/v1/devices`; what that answer does not say (racks, memory, start times) is optional. */
import type { Schema } from "@/api/client";

export const WHOLE = 1000;

export interface Part {
  /** Number in the answer's workloads; -1: of a project that the caller may not see. */
  workload: number;
  id: string | null;
  name: string;
  project: string;
  user: string;
  /** Thousandths of the device. */
  milli: number;
  kind: "held" | "leaving" | "promised";
  isOver: boolean;
  /** Of a MIG instance. */
  profile: string | null;
}

export interface Device {
  key: string;
  node: MapNode;
  index: number;
  parts: Part[];
  /** Thousandths that are held, also by pods that are stopping. */
  heldMilli: number;
  utilization: number | null;
  memoryBytes: number | null;
  temperature: number | null;
  powerWatts: number | null;
  idleSeconds: number | null;
  isIdle: boolean;
  isWithheld: boolean;
}

export interface MapNode {
  /** Its name; with the cluster before it where two nodes have the same. */
  key: string;
  name: string;
  /** The id of its cluster. */
  cluster: string;
  pool: string;
  rack: string | null;
  type: string;
  memoryMib: number;
  status: string;
  silentSince: string | null;
  /** Takes no new work: drained, cordoned or not ready. */
  isOut: boolean;
  isDrained: boolean;
  isSimulated: boolean;
  message: string;
  devices: Device[];
}

export type Measured = ReadonlyMap<string, readonly Schema<"MeasuredDevice">[]>;

export interface Extra {
  /** The rack of each node, by its name. */
  racks?: ReadonlyMap<string, string> | undefined;
  /** What was last measured of the devices of each node. */
  measured?: Measured | undefined;
  /** When each workload started, in ms, by its id. */
  started?: ReadonlyMap<string, number> | undefined;
}

type Page = Schema<"DevicePage">;
type Node = Schema<"DeviceNode">;

/** All nodes of an answer with their devices. `over` are the ids of workloads beyond their project's quota. */
export function mapNodes(page: Page, over: ReadonlySet<string>, hidden: string, extra: Extra = {}): MapNode[] {
  const known = partsOf(page, over, hidden);
  const times = new Map<string, number>();
  for (const { name } of page.nodes) times.set(name, (times.get(name) ?? 0) + 1);
  return page.nodes
    .filter((each) => each.gpus > 0 || hasMig(each))
    .map((each) => {
      const cluster = page.clusters[each.cluster]?.id ?? "";
      const key = times.get(each.name) === 1 ? each.name : `${cluster}/${each.name}`;
      return mapNode(each, { key, cluster }, known, extra);
    });
}

/** Those of one cluster, and of one node pool. Undefined: of all. */
export function devicesIn(page: Page, cluster: string | undefined, pool: string | undefined): Page {
  if (cluster === undefined && pool === undefined) return page;
  const nodes = page.nodes.filter(
    (each) =>
      (pool === undefined || each.pool === pool) &&
      (cluster === undefined || page.clusters[each.cluster]?.id === cluster),
  );
  return { ...page, nodes, devices: nodes.reduce((sum, each) => sum + each.gpus, 0) };
}

type PartOf = (workload: number, milli: number, kind: Part["kind"], profile?: string) => Part;

function partsOf(page: Page, over: ReadonlySet<string>, hidden: string): PartOf {
  const { ids, names, projects, users } = page.workloads;
  return (workload, milli, kind, profile) => {
    const id = workload < 0 ? null : (ids[workload] ?? null);
    return {
      workload,
      id,
      name: id === null ? hidden : (names[workload] ?? hidden),
      project: id === null ? hidden : (page.projects[projects[workload]!] ?? hidden),
      user: id === null ? hidden : (page.users[users[workload]!] ?? hidden),
      milli,
      kind,
      isOver: id !== null && over.has(id),
      profile: profile ?? null,
    };
  };
}

function mapNode(node: Node, place: Pick<MapNode, "key" | "cluster">, partOf: PartOf, extra: Extra): MapNode {
  const made: MapNode = {
    ...place,
    name: node.name,
    pool: node.pool,
    rack: extra.racks?.get(node.name) ?? null,
    type: node.type,
    memoryMib: node.memoryMib,
    status: node.status,
    silentSince: node.silentSince ?? null,
    isOut: node.cordoned || node.drained || node.status !== "Ready",
    isDrained: node.cordoned || node.drained,
    isSimulated: node.simulated,
    message: node.message,
    devices: [],
  };
  const count = Math.max(node.gpus, hasMig(node) ? migDevices(node) : 0);
  const withheld = new Set(node.withheld ?? []);
  const idle = new Set(node.idle ?? []);
  const measured = extra.measured?.get(node.name) ?? [];
  for (let index = 0; index < count; index++) {
    const sample = measured.find((each) => each.index === index);
    made.devices.push({
      key: `${place.key}/${index}`,
      node: made,
      index,
      parts: [],
      heldMilli: 0,
      utilization: node.utilization?.[index] ?? null,
      memoryBytes: sample?.memoryBytes ?? null,
      temperature: sample?.temperatureCelsius ?? null,
      powerWatts: sample?.powerWatts ?? null,
      idleSeconds: sample?.idleSeconds ?? null,
      isIdle: idle.has(index),
      isWithheld: withheld.has(index),
    });
  }
  for (const kind of ["holders", "leaving", "promised"] as const)
    for (const [workload, milli, devices] of node[kind] ?? [])
      for (const index of devices)
        addPart(made.devices[index], partOf(workload, milli, kind === "holders" ? "held" : kind));
  if (hasMig(node)) spreadMig(node, made, partOf);
  return made;
}

function addPart(device: Device | undefined, part: Part): void {
  if (device === undefined) return;
  device.parts.push(part);
  if (part.kind !== "promised") device.heldMilli += part.milli;
}

export const hasMig = (node: Node): boolean => Object.keys(node.mig ?? {}).length > 0;

/** The eighths of a device's memory that an instance has: 1g is one, 2g two, 3g and 4g half, 7g all. */
export function migEighths(profile: string): number {
  const slices = Number(/^(\d+)g/.exec(profile)?.[1] ?? 1);
  return slices >= 7 ? 8 : slices >= 3 ? 4 : slices;
}

function migDevices(node: Node): number {
  const eighths = Object.entries(node.mig ?? {}).reduce((sum, [name, count]) => sum + count * migEighths(name), 0);
  return Math.max(1, Math.ceil(eighths / 8));
}

/** MIG instances are reported for a node and not for a device, so held ones are drawn first, on the first devices
 * with room. Amounts are right; on which device an instance is, is not known. */
function spreadMig(node: Node, made: MapNode, partOf: PartOf): void {
  const room = made.devices.map((each) => (each.heldMilli === 0 ? 8 : 0));
  for (const [workload, profile, instances] of node.migHolders ?? []) {
    const eighths = migEighths(profile);
    for (let each = 0; each < instances; each++) {
      const at = room.findIndex((free) => free >= eighths);
      if (at < 0) return;
      room[at]! -= eighths;
      addPart(made.devices[at], partOf(workload, (eighths * WHOLE) / 8, "held", profile));
    }
  }
}

export const isFree = (device: Device): boolean => device.heldMilli === 0 && !device.isWithheld;

/** Whether new work could start on it. */
export const isOpen = (device: Device): boolean => isFree(device) && !device.node.isOut && !device.node.silentSince;

/** The holder of the largest part. */
export function largestPart(device: Device): Part | null {
  let largest: Part | null = null;
  for (const each of device.parts)
    if (each.kind !== "promised" && (largest === null || each.milli > largest.milli)) largest = each;
  return largest;
}

export type StateName = "in" | "over" | "idle" | "free" | "drained" | "withheld" | "silent" | "leaving" | "promised";

/** The states of a device, for the legend and its filter. A shared device can be in and over quota at once. */
export function statesOf(device: Device): StateName[] {
  const states: StateName[] = [];
  const held = device.parts.filter((each) => each.kind === "held");
  if (held.some((each) => !each.isOver)) states.push("in");
  if (held.some((each) => each.isOver)) states.push("over");
  if (device.isIdle && device.heldMilli > 0) states.push("idle");
  if (isFree(device)) states.push("free");
  if (device.isWithheld) states.push("withheld");
  if (device.node.isDrained) states.push("drained");
  if (device.node.silentSince) states.push("silent");
  if (device.parts.some((each) => each.kind === "leaving")) states.push("leaving");
  if (device.parts.some((each) => each.kind === "promised")) states.push("promised");
  return states;
}

export interface Highlight {
  workload?: string | undefined;
  project?: string | undefined;
  user?: string | undefined;
  state?: string | undefined;
  /** Part of a name of a workload, user, project or node. */
  find?: string | undefined;
}

export const isEmpty = (highlight: Highlight | undefined): boolean =>
  highlight === undefined || !Object.values(highlight).some((each) => each !== undefined && each !== "");

/** Whether a device is one of those that are not dimmed. All conditions hold, those on holders for one and the same part. */
export function isHighlighted(device: Device, highlight: Highlight): boolean {
  const { workload, project, user, state } = highlight;
  if (state && !statesOf(device).includes(state as StateName)) return false;
  const find = highlight.find?.toLowerCase();
  const onNode = !find || device.node.name.toLowerCase().includes(find);
  if (!workload && !project && !user && onNode) return true;
  return device.parts.some(
    (each) =>
      (!workload || each.id === workload || each.name === workload) &&
      (!project || each.project === project) &&
      (!user || each.user === user) &&
      (state !== "in" || !each.isOver) &&
      (state !== "over" || each.isOver) &&
      (onNode || [each.name, each.user, each.project].some((one) => one.toLowerCase().includes(find!))),
  );
}

export interface Blocks {
  eights: number;
  fours: number;
  twos: number;
  singles: number;
}

/** Free devices of each node as blocks of 8, 4, 2 and 1, the largest first: 7 are a block of 4, one of 2 and a single. */
export function freeBlocks(nodes: readonly MapNode[]): Blocks {
  const blocks = { eights: 0, fours: 0, twos: 0, singles: 0 };
  for (const node of nodes) {
    let free = node.devices.filter(isOpen).length;
    blocks.eights += Math.floor(free / 8);
    free %= 8;
    blocks.fours += Math.floor(free / 4);
    free %= 4;
    blocks.twos += Math.floor(free / 2);
    blocks.singles += free % 2;
  }
  return blocks;
}
