/** Where each device stands. Pure: nodes and a size in, rectangles out. The unit is a pixel of the view that fits all;
 * zooming multiplies it. */
import type { Device, MapNode } from "./devices";
import { isOpen } from "./devices";

export type GroupBy = "pool" | "rack" | "none";
export type Order = "holder" | "name" | "packed";

export interface Place {
  node: MapNode;
  x: number;
  y: number;
  width: number;
  height: number;
  /** Devices beside each other. */
  columns: number;
}

export interface Label {
  text: string;
  x: number;
  y: number;
  width: number;
}

export interface Layout {
  places: Place[];
  labels: Label[];
  /** Of one device, gaps not included. */
  deviceWidth: number;
  deviceHeight: number;
  gap: number;
  /** Above the devices of a node, for its name. */
  nodeLabel: number;
  width: number;
  height: number;
}

export interface Options {
  width: number;
  /** All of it should fit into this; if it cannot, devices have one pixel and it is higher. */
  height: number;
  groupBy: GroupBy;
  order: Order;
  /** The widest that a device gets. */
  widest?: number;
}

const WIDEST = 140;
const NARROWEST = 1;
const GROUP_LABEL = 20;
const NAMES_FROM = 20;
const NAMES_IN_DEVICES_FROM = 56;

const collator = new Intl.Collator("en", { numeric: true });

/** Nodes in order: by the largest holder so that regions form, by name, or by room. */
export function ordered(nodes: readonly MapNode[], order: Order): MapNode[] {
  const byName = (a: MapNode, b: MapNode) => collator.compare(a.name, b.name);
  if (order === "name") return [...nodes].sort(byName);
  if (order === "packed") {
    const room = new Map(nodes.map((each) => [each, each.devices.filter(isOpen).length]));
    return [...nodes].sort((a, b) => room.get(b)! - room.get(a)! || byName(a, b));
  }
  return byHolder(nodes, byName);
}

function byHolder(nodes: readonly MapNode[], byName: (a: MapNode, b: MapNode) => number): MapNode[] {
  const totals = new Map<string, number>();
  const largest = new Map<MapNode, { project: string; milli: number } | null>();
  for (const node of nodes) {
    const held = new Map<string, number>();
    for (const device of node.devices)
      for (const part of device.parts)
        if (part.kind !== "promised") held.set(part.project, (held.get(part.project) ?? 0) + part.milli);
    let most: { project: string; milli: number } | null = null;
    for (const [project, milli] of held) {
      totals.set(project, (totals.get(project) ?? 0) + milli);
      if (most === null || milli > most.milli) most = { project, milli };
    }
    largest.set(node, most);
  }
  return [...nodes].sort((a, b) => {
    const one = largest.get(a);
    const other = largest.get(b);
    if (!one || !other) return one ? -1 : other ? 1 : byName(a, b);
    return (
      totals.get(other.project)! - totals.get(one.project)! ||
      one.project.localeCompare(other.project) ||
      other.milli - one.milli ||
      byName(a, b)
    );
  });
}

export interface Group {
  name: string;
  nodes: MapNode[];
}

export function grouped(nodes: readonly MapNode[], groupBy: GroupBy, order: Order): Group[] {
  const groups = new Map<string, MapNode[]>();
  for (const node of nodes) {
    const name = groupBy === "none" ? "" : groupBy === "pool" ? node.pool : (node.rack ?? "");
    const there = groups.get(name);
    if (there === undefined) groups.set(name, [node]);
    else there.push(node);
  }
  return [...groups]
    .sort(([a], [b]) => collator.compare(a, b))
    .map(([name, members]) => ({ name, nodes: ordered(members, order) }));
}

interface Measures {
  w: number;
  h: number;
  gap: number;
  label: number;
  between: number;
}

function measures(w: number): Measures {
  const h = Math.max(1, Math.round(Math.min(w * 0.85, 72)));
  const gap = w >= 56 ? 6 : w >= 20 ? 3 : w >= 8 ? 1 : w >= 3 ? 0.5 : 0;
  const label = w >= NAMES_FROM ? 20 : 0;
  // Without a line for names there is a quarter of a device between nodes: zoomed in, names stand there.
  const between = w >= NAMES_FROM ? 10 : Math.max(w >= 3 ? 1 : 0.5, h * 0.28);
  return { w, h, gap, label, between };
}

/** The widest devices with which everything fits into the size; narrow views break nodes into rows. */
export function layoutOf(nodes: readonly MapNode[], options: Options): Layout {
  const groups = grouped(nodes, options.groupBy, options.order);
  const widest = widestOf(nodes, options);
  let low = NARROWEST;
  let high = widest;
  // Heights fall with the width of devices, almost: halve, then look at the neighbours that rounding may have spoilt.
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (placed(groups, measures(middle), options).height <= options.height) low = middle;
    else high = middle - 1;
  }
  const wider = Math.min(widest, low + 1);
  const tried = placed(groups, measures(wider), options);
  return wider > low && tried.height <= options.height ? tried : placed(groups, measures(low), options);
}

/** A node is one row as long as that leaves room for names. */
function widestOf(nodes: readonly MapNode[], { width, widest = WIDEST }: Options): number {
  const most = nodes.reduce((count, each) => Math.max(count, Math.min(each.devices.length, 16)), 1);
  const inOneRow = Math.floor((width + 6) / most - 6);
  return inOneRow >= NAMES_IN_DEVICES_FROM ? Math.min(widest, inOneRow) : Math.floor(widest);
}

function columnsOf(node: MapNode, m: Measures, width: number): number {
  const count = node.devices.length;
  const fits = Math.max(1, Math.floor((width + m.gap) / (m.w + m.gap)));
  if (count <= fits) return Math.max(1, Math.min(count, 16));
  return [8, 4, 2, 1].find((each) => each <= fits) ?? 1;
}

function sizeOf(node: MapNode, m: Measures, width: number): { columns: number; width: number; height: number } {
  const columns = columnsOf(node, m, width);
  const rows = Math.ceil(node.devices.length / columns);
  return {
    columns,
    width: columns * (m.w + m.gap) - m.gap,
    height: m.label + rows * (m.h + m.gap) - m.gap,
  };
}

function placed(groups: readonly Group[], m: Measures, options: Options): Layout {
  const places: Place[] = [];
  const labels: Label[] = [];
  const hasLabels = options.groupBy !== "none" && (groups.length > 1 || options.groupBy === "rack");
  const height =
    options.groupBy === "rack"
      ? placeTiles(groups, m, options.width, places, labels)
      : placeFlows(groups, m, options.width, hasLabels, places, labels);
  return {
    places,
    labels,
    deviceWidth: m.w,
    deviceHeight: m.h,
    gap: m.gap,
    nodeLabel: m.label,
    width: options.width,
    height,
  };
}

const COLUMN_GAP = (m: Measures): number => (m.w >= 20 ? 24 : m.w >= 8 ? 16 : Math.max(1, m.w / 2));

/** Groups below each other; in each, nodes fill column after column, so that neighbours in order form regions. */
function placeFlows(
  groups: readonly Group[],
  m: Measures,
  width: number,
  hasLabels: boolean,
  places: Place[],
  labels: Label[],
): number {
  let y = 0;
  for (const group of groups) {
    if (hasLabels) {
      labels.push({ text: group.name, x: 0, y, width });
      y += GROUP_LABEL;
    }
    const sizes = group.nodes.map((each) => sizeOf(each, m, width));
    const widest = Math.max(1, ...sizes.map((each) => each.width));
    const tallest = Math.max(1, ...sizes.map((each) => each.height));
    const most = Math.max(1, Math.floor((width + COLUMN_GAP(m)) / (widest + COLUMN_GAP(m))));
    const rows = Math.ceil(group.nodes.length / most);
    group.nodes.forEach((node, number) => {
      const x = Math.floor(number / rows) * (widest + COLUMN_GAP(m));
      places.push({ node, x, y: y + (number % rows) * (tallest + m.between), ...sizes[number]! });
    });
    y += rows * (tallest + m.between) - m.between + (hasLabels ? 12 : 0);
  }
  return Math.max(0, y - (hasLabels ? 12 : 0));
}

/** Each group a column of its nodes, the columns beside each other. */
function placeTiles(groups: readonly Group[], m: Measures, width: number, places: Place[], labels: Label[]): number {
  const gap = COLUMN_GAP(m);
  let x = 0;
  let y = 0;
  let lowest = 0;
  for (const group of groups) {
    const sizes = group.nodes.map((each) => sizeOf(each, m, width));
    const widest = Math.max(1, ...sizes.map((each) => each.width));
    if (x > 0 && x + widest > width) {
      x = 0;
      y = lowest + 12;
    }
    labels.push({ text: group.name, x, y, width: widest });
    let at = y + GROUP_LABEL;
    group.nodes.forEach((node, number) => {
      places.push({ node, x, y: at, ...sizes[number]! });
      at += sizes[number]!.height + m.between;
    });
    lowest = Math.max(lowest, at - m.between);
    x += widest + gap;
  }
  return lowest;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The rectangle of a device, in the units of the layout. */
export function boxOf(layout: Layout, place: Place, index: number): Box {
  const column = index % place.columns;
  const row = Math.floor(index / place.columns);
  return {
    x: place.x + column * (layout.deviceWidth + layout.gap),
    y: place.y + layout.nodeLabel + row * (layout.deviceHeight + layout.gap),
    width: layout.deviceWidth,
    height: layout.deviceHeight,
  };
}

const CELL = 64;

/** Finds what stands where, by cells of 64 pixels, so that a look does not go through all nodes. */
export class Lookup {
  private readonly cells = new Map<number, Place[]>();
  private readonly across: number;
  readonly byNode = new Map<string, Place>();

  constructor(readonly layout: Layout) {
    this.across = Math.ceil(layout.width / CELL) + 2;
    for (const place of layout.places) {
      this.byNode.set(place.node.key, place);
      this.eachCell(place, (key) => {
        const there = this.cells.get(key);
        if (there === undefined) this.cells.set(key, [place]);
        else there.push(place);
      });
    }
  }

  private eachCell(box: Box, visit: (key: number) => void): void {
    const right = Math.min(this.across - 1, Math.floor((box.x + box.width) / CELL));
    const bottom = Math.floor((box.y + box.height) / CELL);
    for (let row = Math.max(0, Math.floor(box.y / CELL)); row <= bottom; row++)
      for (let column = Math.max(0, Math.floor(box.x / CELL)); column <= right; column++)
        visit(row * this.across + column);
  }

  /** Nodes that a rectangle touches, each once. */
  within(box: Box): Place[] {
    if (box.x <= 0 && box.y <= 0 && box.width >= this.layout.width && box.height >= this.layout.height)
      return this.layout.places;
    const found = new Set<Place>();
    this.eachCell(box, (key) => {
      for (const each of this.cells.get(key) ?? []) if (touches(each, box)) found.add(each);
    });
    return [...found];
  }

  at(x: number, y: number): Device | null {
    for (const place of this.within({ x, y, width: 0, height: 0 })) {
      const column = Math.floor((x - place.x) / (this.layout.deviceWidth + this.layout.gap));
      const row = Math.floor((y - place.y - this.layout.nodeLabel) / (this.layout.deviceHeight + this.layout.gap));
      if (column < 0 || row < 0 || column >= place.columns) continue;
      const device = place.node.devices[row * place.columns + column];
      if (device !== undefined) return device;
    }
    return null;
  }

  /** Devices that a rectangle touches. */
  devicesIn(box: Box): Device[] {
    return this.within(box).flatMap((place) =>
      place.node.devices.filter((each) => touches(boxOf(this.layout, place, each.index), box)),
    );
  }

  /** The nearest device in a direction, for the arrow keys. */
  next(from: Device, dx: number, dy: number): Device {
    const place = this.byNode.get(from.node.key);
    if (place === undefined) return from;
    const box = boxOf(this.layout, place, from.index);
    const x = box.x + box.width / 2;
    const y = box.y + box.height / 2;
    let best = from;
    let least = Number.POSITIVE_INFINITY;
    for (const other of this.layout.places)
      for (const device of other.node.devices) {
        if (device === from) continue;
        const there = boxOf(this.layout, other, device.index);
        const right = there.x + there.width / 2 - x;
        const down = there.y + there.height / 2 - y;
        const along = right * dx + down * dy;
        if (along <= 0.01) continue;
        // Sideways counts four times, so that an arrow stays in its row or column while there is something in it.
        const far = along + 4 * Math.abs(dx === 0 ? right : down);
        if (far < least) {
          least = far;
          best = device;
        }
      }
    return best;
  }
}

function touches(a: Box, b: Box): boolean {
  return a.x <= b.x + b.width && b.x <= a.x + a.width && a.y <= b.y + b.height && b.y <= a.y + a.height;
}
