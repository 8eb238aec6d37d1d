/** Words of the GPU map, on its page and in cards of other pages. */
import type { Blocks, MapNode } from "@/components/gpuMap/devices";
import { duration, moment } from "@/model/format";

const plural = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;

export const text = {
  title: "GPU map",
  unknown: "–",
  hidden: "another project",
  noGroup: "no rack",
  canvas: (devices: number, nodes: number) =>
    `Map of ${plural(devices, "GPU")} on ${plural(nodes, "node")}. Arrow keys move, Enter opens; the table has the same.`,
  summary: (devices: number, nodes: number, held: string) =>
    `${plural(devices, "GPU")} on ${plural(nodes, "node")}, ${held} allocated`,
  nodeNote: (node: MapNode): string => {
    if (node.silentSince) return `silent since ${moment(node.silentSince)}`;
    if (node.isDrained) return "drained";
    if (node.status !== "Ready") return node.status;
    const held = node.devices.reduce((sum, each) => sum + Math.min(1000, each.heldMilli), 0) / 1000;
    const measured = node.devices.filter((each) => each.utilization !== null);
    const used = measured.reduce((sum, each) => sum + each.utilization!, 0) / (measured.length || 1);
    const words = `${Number.isInteger(held) ? held : held.toFixed(2)} of ${node.devices.length} allocated`;
    const all = measured.length === 0 ? words : `${words} · ${Math.round(used)} % used`;
    return node.isSimulated ? `${all} · simulated` : all;
  },
  idleFor: (seconds: number | null) => (seconds === null ? "idle" : `idle ${duration(seconds * 1000)}`),
  idleShort: (seconds: number | null) => (seconds === null ? "idle" : duration(seconds * 1000)),
  device: (node: string, index: number) => `${node} · GPU ${index}`,
  minimap: "Part of the map that is shown",
  fit: "Show all",
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  states: {
    in: "in quota",
    over: "over quota",
    idle: "idle",
    free: "free",
    drained: "drained",
    withheld: "withheld",
    silent: "silent",
    leaving: "leaving",
    promised: "promised",
    simulated: "simulated",
  },
  facts: {
    type: "Type",
    use: "Used",
    memory: "Memory",
    now: "Now",
    pool: "Node pool",
    rack: "Rack",
    state: "State",
    holder: "Holder",
    part: "Part",
    free: "free",
    freePart: (part: string) => `${part} free`,
    runsFor: (time: string) => `runs for ${time}`,
    compute: (percent: string) => `${percent} compute`,
    memoryOf: (used: string, all: string) => `${used} of ${all}`,
    degrees: (value: number) => `${Math.round(value)} °C`,
    watts: (value: number) => `${Math.round(value)} W`,
    idleSince: (time: string) => `idle since ${time}`,
    notHeld: "Nothing holds it.",
    withheld: (message: string) => `Withheld: ${message || "it failed, or other processes use it"}`,
    silentSince: (time: string) => `Its node is silent since ${time}. What you see is from then.`,
    drained: "Its node takes no new work.",
    simulated: "simulated",
  },
  noNodes: "No GPUs yet",
  noNodesHint: "Devices appear here when a node reports them.",
  toClusters: "To the clusters",
  lead: (held: string, all: number, blocks: Blocks) => {
    const parts = [
      blocks.eights > 0 ? `${blocks.eights} × 8 on one node` : null,
      blocks.fours > 0 ? `${blocks.fours} × 4` : null,
      blocks.twos > 0 ? `${blocks.twos} × 2` : null,
      blocks.singles > 0 ? `${blocks.singles} single` : null,
    ].filter((each) => each !== null);
    return `${held} of ${all} allocated. ${parts.length > 0 ? `Free together: ${parts.join(", ")}.` : "No whole GPU is free."}`;
  },
  colourBy: "Colour by",
  colours: {
    project: "project",
    utilization: "utilization",
    memory: "memory",
    temperature: "temperature",
    user: "user",
    age: "run time",
  },
  groupBy: "Group by",
  groups: { pool: "node pool", rack: "rack", none: "nothing" },
  order: "Order",
  orders: { holder: "largest holder", name: "name", packed: "packed" },
  find: "Find a workload, user, node",
  table: "Table",
  map: "Map",
  hint: (devices: number) => `${plural(devices, "device")} · wheel zooms, Shift and drag selects`,
  hintSmall: (devices: number) => plural(devices, "device"),
  legend: "Legend: choose an entry to dim the rest",
  legendStates: "States: choose one to dim the rest",
  more: (count: number) => `${count} more`,
  less: "fewer",
  notMeasured: "not measured",
  unit: { utilization: "%", memory: "%", temperature: "°C", age: "h" },
  below: (end: number, unit: string) => `below ${end} ${unit}`,
  from: (start: number, end: number, unit: string) => `${start}–${end} ${unit}`,
  above: (start: number, unit: string) => `${start} ${unit} and more`,
  matches: (count: number) => `${plural(count, "device")} match`,
  pinned: {
    close: "Close the panel",
    node: "Open the node",
    holders: "Holders",
    used: "Used",
    project: "Project",
    fits: (part: string) => `What fits the free ${part}`,
    waiting: (count: number) =>
      `${plural(count, "waiting workload")} ${count === 1 ? "asks" : "ask"} for that much or less.`,
    fitsNone: "No waiting workload asks for that much or less.",
  },
  selection: {
    title: (count: number) => `${plural(count, "device")} selected`,
    nodes: "Nodes",
    allocated: "Allocated",
    inQuota: "In quota",
    overQuota: "Over quota",
    free: "Free",
    utilization: "Utilization, average",
    projects: "Projects",
    clear: "Clear the selection",
    csv: "Save as CSV",
    workloads: "Workloads",
  },
  columns: {
    node: "Node",
    device: "GPU",
    type: "Type",
    pool: "Node pool",
    state: "State",
    holder: "Workload",
    project: "Project",
    user: "User",
    part: "Part",
    quota: "Quota",
    utilization: "Utilization",
    memory: "Memory used",
    temperature: "Temperature",
  },
  tableCaption: "All devices with their holders",
  ofDevice: "Devices of one node",
};
