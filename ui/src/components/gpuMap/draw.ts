/** Draws the map on a canvas. Called once a frame at most, and only when something changed. */
import { text } from "@/text/map";
import type { Device } from "./devices";
import { isFree, largestPart } from "./devices";
import { drawDetailed } from "./drawDetailed";
import { boxOf, type Layout, type Lookup, type Place } from "./layout";
import { type Look, mix, type Paint } from "./look";
import { type Level, levelOf, MARGIN, type Size, seen, toScreen, type View } from "./view";

export interface Scene {
  layout: Layout;
  lookup: Lookup;
  look: Look;
  paint: Paint;
  /** Those that are not dimmed; null: none is. */
  lit: ReadonlySet<Device> | null;
  /** Outlined in the accent: all devices of what the pointer is on. */
  related: ReadonlySet<Device>;
  pinned: Device | null;
  focused: Device | null;
  selected: ReadonlySet<Device>;
}

export interface Brush {
  context: CanvasRenderingContext2D;
  scene: Scene;
  view: View;
  level: Level;
  width: number;
  height: number;
  stripes: (colour: string) => CanvasPattern | string;
}

export const DIM = 0.15;
const SILENT = 0.4;
const STRIPE = 7;

const patterns = new Map<string, CanvasPattern>();

/** 45° stripes in a lighter tone of the colour; anchored to the layout, so that they move with it. */
function stripesOf(context: CanvasRenderingContext2D, look: Look, view: View, ratio: number) {
  const matrix = new DOMMatrix()
    .translate(MARGIN - ((view.x * view.scale) % STRIPE), MARGIN - ((view.y * view.scale) % STRIPE))
    .scale(1 / ratio);
  const moved = new Set<CanvasPattern>();
  return (colour: string): CanvasPattern | string => {
    const key = `${colour}${look.surface}${ratio}`;
    let pattern = patterns.get(key);
    if (pattern === undefined) {
      const made = context.createPattern(stripeTile(colour, mix(colour, look.surface, 0.42), ratio), "repeat");
      if (made === null) return colour;
      pattern = made;
      patterns.set(key, made);
    }
    if (!moved.has(pattern)) {
      pattern.setTransform(matrix);
      moved.add(pattern);
    }
    return pattern;
  };
}

function stripeTile(dark: string, light: string, ratio: number): HTMLCanvasElement {
  const tile = document.createElement("canvas");
  const side = Math.round(STRIPE * ratio);
  tile.width = side;
  tile.height = side;
  const context = tile.getContext("2d")!;
  context.fillStyle = dark;
  context.fillRect(0, 0, side, side);
  context.strokeStyle = light;
  context.lineWidth = side * 0.36;
  for (const shift of [-side, 0, side]) {
    context.beginPath();
    context.moveTo(shift - 2, side + 2);
    context.lineTo(shift + side + 2, -2);
    context.stroke();
  }
  return tile;
}

/** Everything but the names of groups. */
export function draw(context: CanvasRenderingContext2D, scene: Scene, view: View, size: Size, ratio: number): void {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, size.width, size.height);
  context.textRendering = "geometricPrecision"; // else glyphs stand on whole pixels, with gaps between
  const width = scene.layout.deviceWidth * view.scale;
  const brush: Brush = {
    context,
    scene,
    view,
    level: levelOf(width),
    width,
    height: scene.layout.deviceHeight * view.scale,
    stripes: stripesOf(context, scene.look, view, ratio),
  };
  const places = scene.lookup.within(seen(view, size));
  if (brush.level === "nodes") drawNodes(brush, places);
  else if (brush.level === "cells") drawCells(brush, places);
  else for (const place of places) drawNode(brush, place);
  drawNodeNames(brush, places);
  drawOutlines(brush, places);
}

/** How visible a device is: dimmed if others are looked for, faded if its node is silent. */
export function alphaOf(scene: Scene, device: Device): number {
  const lit = scene.lit === null || scene.lit.has(device) ? 1 : DIM;
  return device.node.silentSince ? lit * SILENT : lit;
}

function drawNode(brush: Brush, place: Place): void {
  drawDetailed(brush, place);
  brush.context.globalAlpha = 1;
}

/** Below 3 pixels a device is not seen: one bar for a node, split into in quota, over quota, idle and free. */
function drawNodes({ context, scene, view }: Brush, places: readonly Place[]): void {
  const { look } = scene;
  for (const place of places) {
    const [x, y] = toScreen(view, place.x, place.y);
    const width = place.width * view.scale;
    const height = Math.max(1, place.height * view.scale - 0.5);
    const { parts, colour, isLit } = splitOf(scene, place);
    context.globalAlpha = isLit ? (place.node.silentSince ? SILENT : 1) : DIM;
    let at = x;
    const styles = [colour, mix(colour, look.surface, 0.45), look.edge, look.border];
    parts.forEach((part, number) => {
      context.fillStyle = styles[number]!;
      context.fillRect(at, y, width * part, height);
      at += width * part;
    });
  }
  context.globalAlpha = 1;
}

function splitOf(scene: Scene, place: Place): { parts: number[]; colour: string; isLit: boolean } {
  const amounts = [0, 0, 0, 0];
  const byColour = new Map<string, number>();
  let isLit = scene.lit === null;
  for (const device of place.node.devices) {
    if (scene.lit?.has(device)) isLit = true;
    const part = largestPart(device);
    amounts[part === null ? 3 : device.isIdle ? 2 : part.isOver ? 1 : 0]! += 1;
    if (part === null) continue;
    const colour = scene.paint(part, device);
    byColour.set(colour, (byColour.get(colour) ?? 0) + 1);
  }
  const most = [...byColour].sort((a, b) => b[1] - a[1])[0];
  const all = place.node.devices.length || 1;
  return { parts: amounts.map((each) => each / all), colour: most?.[0] ?? scene.look.edge, isLit };
}

/** 3 to 7 pixels: one colour each, lighter = over quota. Cells of a colour are filled together: thousands of changes of
 * the fill style would cost more than the filling. */
function drawCells({ context, scene, view, width, height }: Brush, places: readonly Place[]): void {
  const { look, layout } = scene;
  const cells = new Map<string, number[]>();
  for (const place of places)
    for (const device of place.node.devices) {
      const box = boxOf(layout, place, device.index);
      const style = `${alphaOf(scene, device)}|${cellStyle(scene, device)}`;
      const list = cells.get(style);
      const x = (box.x - view.x) * view.scale + MARGIN;
      const y = (box.y - view.y) * view.scale + MARGIN;
      if (list === undefined) cells.set(style, [x, y]);
      else list.push(x, y);
    }
  const w = Math.max(1, width - 0.5);
  const h = Math.max(1, height - 0.5);
  for (const [style, at] of cells) {
    const [alpha, colour] = style.split("|") as [string, string];
    const isHollow = colour === FREE;
    context.globalAlpha = Number(alpha);
    context.fillStyle = isHollow ? look.edge : colour;
    for (let each = 0; each < at.length; each += 2) context.fillRect(at[each]!, at[each + 1]!, w, h);
    if (!isHollow || w < 3 || h < 3) continue;
    context.fillStyle = look.surface;
    for (let each = 0; each < at.length; each += 2) context.fillRect(at[each]! + 1, at[each + 1]! + 1, w - 2, h - 2);
  }
  context.globalAlpha = 1;
}

const FREE = "free";

function cellStyle({ look, paint }: Scene, device: Device): string {
  const part = largestPart(device);
  if (part !== null) {
    const colour = paint(part, device);
    return part.isOver ? mix(colour, look.surface, 0.5) : colour;
  }
  if (device.isWithheld) return look.text3;
  return device.node.isDrained || !isFree(device) ? look.border : FREE;
}

/** Names of groups stay in sight, so they are drawn for each view. */
export function drawGroupNames(
  context: CanvasRenderingContext2D,
  { layout, look }: Scene,
  view: View,
  size: Size,
): void {
  context.textBaseline = "alphabetic";
  context.fillStyle = look.text3;
  context.font = `500 12px ${look.font}`;
  for (const label of layout.labels) {
    const [x, y] = toScreen(view, label.x, label.y);
    if (y < -20 || y > size.height + 20) continue;
    const width = label.width * view.scale;
    context.fillText(shortened(context, label.text || text.noGroup, width), Math.max(x, MARGIN), y + 13);
  }
}

function drawNodeNames({ context, scene, view, level }: Brush, places: readonly Place[]): void {
  const { layout, look } = scene;
  const room = layout.nodeLabel > 0 ? layout.nodeLabel * view.scale : layout.deviceHeight * view.scale * 0.28;
  if ((level !== "names" && level !== "parts") || room < 12) return;
  context.textBaseline = "alphabetic";
  for (const place of places) drawNodeName(context, look, view, layout, place);
}

function drawNodeName(context: CanvasRenderingContext2D, look: Look, view: View, layout: Layout, place: Place): void {
  const [x, top] = toScreen(view, place.x, place.y + layout.nodeLabel);
  const width = place.width * view.scale;
  const y = top - 6 + (layout.nodeLabel > 0 ? 0 : 3);
  context.fillStyle = look.text;
  context.font = `600 12px ${look.font}`;
  const name = shortened(context, place.node.name, width);
  context.fillText(name, x, y);
  const used = context.measureText(name).width + 8;
  context.font = `400 12px ${look.font}`;
  context.fillStyle = look.text3;
  const words = shortened(context, text.nodeNote(place.node), width - used);
  if (words.length > 3) context.fillText(words, x + used, y);
}

/** What the pointer is on, what has the focus, what is pinned or selected. */
function drawOutlines({ context, scene, view, width, height }: Brush, places: readonly Place[]): void {
  const { related, pinned, focused, selected, look, layout } = scene;
  if (related.size === 0 && selected.size === 0 && pinned === null && focused === null) return;
  const outline = (place: Place, device: Device, colour: string, out: number) => {
    const box = boxOf(layout, place, device.index);
    const [x, y] = toScreen(view, box.x, box.y);
    context.strokeStyle = colour;
    context.lineWidth = 2;
    context.beginPath();
    context.roundRect(x - out, y - out, width + 2 * out, height + 2 * out, width >= 20 ? 5 : 1);
    context.stroke();
  };
  for (const place of places)
    for (const device of place.node.devices) {
      if (related.has(device) || selected.has(device)) outline(place, device, look.accent, 1);
      if (device === pinned) outline(place, device, look.text, 2);
      if (device === focused) outline(place, device, look.accent, 3);
    }
}

const shorts = new Map<string, string>();
/** What was measured with another font does not fit any more. */
export const forgetWidths = (): void => shorts.clear();
const SHORTS_MAX = 20_000;

/** A text that fits into a width, with an ellipsis if need be. Measured once for each text, font and width. */
export function shortened(context: CanvasRenderingContext2D, words: string, width: number): string {
  const key = `${context.font}|${Math.floor(width)}|${words}`;
  const known = shorts.get(key);
  if (known !== undefined) return known;
  if (shorts.size > SHORTS_MAX) shorts.clear();
  let short = words;
  if (context.measureText(words).width > width) {
    let low = 0;
    let high = words.length;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (context.measureText(`${words.slice(0, middle)}…`).width <= width) low = middle;
      else high = middle - 1;
    }
    short = low === 0 ? "" : `${words.slice(0, low)}…`;
  }
  shorts.set(key, short);
  return short;
}
