/** Devices of 8 pixels and more: parts, stripes, strips of utilization, signs, and names where there is room. */
import { text } from "@/text/map";
import type { Device, Part } from "./devices";
import { WHOLE } from "./devices";
import { alphaOf, type Brush, shortened } from "./draw";
import { boxOf, type Place } from "./layout";
import { inkOn, mix } from "./look";
import { toScreen } from "./view";

const MOON = "M6.5 1A5 5 0 1 0 11 7.600 4.200 4.200 0 0 1 6.500 1Z";
const CLOCK = "M6 1a5 5 0 1 0 0 10A5 5 0 0 0 6 1M6 3.200V6l2 1.300";
/** A part narrower than this is not drawn apart. */
const PART_MIN = 4;

interface Run {
  devices: Device[];
  x: number;
  y: number;
  width: number;
}

/** The devices of a node; whole devices of one workload beside each other are one rectangle. */
export function drawDetailed(brush: Brush, place: Place): void {
  for (const run of runsOf(brush, place)) drawRun(brush, run);
}

function runsOf({ scene, view, width }: Brush, place: Place): Run[] {
  const runs: Run[] = [];
  for (const device of place.node.devices) {
    const box = boxOf(scene.layout, place, device.index);
    const [x, y] = toScreen(view, box.x, box.y);
    const last = runs[runs.length - 1];
    const before = last?.devices[last.devices.length - 1];
    if (last && before && last.y === y && joins(before, device) && alphaOf(scene, before) === alphaOf(scene, device)) {
      last.devices.push(device);
      last.width = x + width - last.x;
    } else runs.push({ devices: [device], x, y, width });
  }
  return runs;
}

function joins(a: Device, b: Device): boolean {
  const one = a.parts[0];
  const other = b.parts[0];
  return (
    a.parts.length === 1 &&
    b.parts.length === 1 &&
    one!.workload >= 0 &&
    one!.workload === other!.workload &&
    one!.milli === WHOLE &&
    other!.milli === WHOLE &&
    one!.kind === other!.kind &&
    a.isIdle === b.isIdle &&
    !a.isWithheld &&
    !b.isWithheld
  );
}

function drawRun(brush: Brush, run: Run): void {
  const { context, scene, level, height } = brush;
  const first = run.devices[0]!;
  const radius = level === "names" ? 5 : level === "parts" ? 3 : 0;
  context.globalAlpha = alphaOf(scene, first);
  // Clipping costs most of a frame where there are thousands of devices, so small ones have square corners.
  if (radius > 0) {
    context.save();
    context.beginPath();
    context.roundRect(run.x, run.y, run.width, height, radius);
    context.clip();
  }
  const step = run.devices.length > 1 ? (run.width + scene.layout.gap * brush.view.scale) / run.devices.length : 0;
  run.devices.forEach((device, number) => {
    const isLast = number === run.devices.length - 1;
    const x = run.x + number * step;
    drawBody(brush, device, x, run.y, isLast ? run.x + run.width - x : step);
  });
  if (first.parts.length === 0 || first.isWithheld) drawEmpty(brush, first, run.x, run.y);
  if (level === "names") drawWords(brush, run, step);
  else drawSigns(brush, run);
  if (radius === 0) return;
  context.restore();
  drawEdges(brush, run, radius);
}

/** The holders side by side, then the strip of utilization. */
function drawBody(brush: Brush, device: Device, x: number, y: number, width: number): void {
  const { context, scene, level, height } = brush;
  const { look } = scene;
  if (device.isWithheld && device.parts.length === 0) return;
  context.fillStyle = look.surface;
  if (device.parts.length > 0) context.fillRect(x, y, width, height);
  let at = x;
  for (const part of device.parts) {
    if (part.kind === "promised") continue;
    const wide = (width * part.milli) / WHOLE;
    if (level === "small" && wide < PART_MIN && device.parts.length > 1) continue;
    drawPart(brush, device, part, at, y, wide);
    at += wide;
    if (at < x + width - 1) {
      context.fillStyle = look.surface;
      context.fillRect(at - 0.75, y, 1.5, height);
    }
  }
  if (device.heldMilli > 0 && device.heldMilli < WHOLE && at < x + width - 2) hollow(brush, at, y, x + width - at);
  if (level === "small" && device.index > 0) {
    context.fillStyle = look.surface;
    context.globalAlpha *= 0.6;
    context.fillRect(x, y, 0.7, height);
    context.globalAlpha = alphaOf(scene, device);
  }
  if (level === "parts" && device.utilization !== null && device.heldMilli > 0) {
    const part = device.parts[0]!;
    const ink = device.isIdle ? scene.paint(part, device) : inkOn(scene.paint(part, device));
    strip(brush, x + 3, y + height - 5, width - 6, 2, device.utilization, ink);
  }
}

function drawPart(brush: Brush, device: Device, part: Part, x: number, y: number, width: number): void {
  const { context, scene, height, stripes, level } = brush;
  const colour = scene.paint(part, device);
  const alpha = context.globalAlpha;
  if (part.kind === "leaving") context.globalAlpha = alpha * 0.4;
  if (device.isIdle && part.kind === "held") {
    const line = level === "small" ? 1.5 : 2;
    context.fillStyle = colour;
    context.fillRect(x, y, width, height);
    context.fillStyle = scene.look.surface;
    context.fillRect(x + line, y + line, width - 2 * line, height - 2 * line);
    if (part.isOver) {
      context.globalAlpha = alpha * 0.22;
      context.fillStyle = stripes(colour);
      context.fillRect(x + line, y + line, width - 2 * line, height - 2 * line);
    }
  } else {
    context.fillStyle = part.isOver ? stripes(colour) : colour;
    context.fillRect(x, y, width, height);
  }
  context.globalAlpha = alpha;
  if (part.kind === "leaving" && width >= 14) icon(brush, CLOCK, x + width - 14, y + 3, scene.look.text2, false);
}

function hollow({ context, scene, height }: Brush, x: number, y: number, width: number): void {
  context.strokeStyle = scene.look.edge;
  context.lineWidth = 1;
  context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}

/** A device that nothing holds: free, out of service or withheld. */
function drawEmpty(brush: Brush, device: Device, x: number, y: number): void {
  const { context, scene, width, height, level } = brush;
  const { look } = scene;
  if (device.isWithheld) {
    context.fillStyle = mix(look.edge, look.surface, 0.35);
    context.fillRect(x, y, width, height);
    context.fillStyle = look.text;
    context.font = `700 ${Math.min(16, Math.max(9, height * 0.6))}px ${look.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText("!", x + width / 2, y + height / 2 + 1);
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    return;
  }
  context.fillStyle = device.node.isDrained ? look.sunken : look.surface;
  context.fillRect(x, y, width, height);
  if (level === "small") hollow(brush, x, y, width);
  if (device.node.isDrained) cross(brush, x, y, width, height);
}

function cross({ context, scene }: Brush, x: number, y: number, width: number, height: number): void {
  const inset = Math.min(width, height) * 0.2;
  context.strokeStyle = scene.look.text3;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x + inset, y + inset);
  context.lineTo(x + width - inset, y + height - inset);
  context.moveTo(x + width - inset, y + inset);
  context.lineTo(x + inset, y + height - inset);
  context.stroke();
}

function strip({ context }: Brush, x: number, y: number, width: number, height: number, percent: number, ink: string) {
  const alpha = context.globalAlpha;
  context.fillStyle = ink;
  context.globalAlpha = alpha * 0.35;
  context.fillRect(x, y, width, height);
  context.globalAlpha = alpha;
  context.fillRect(x, y, (width * Math.min(100, percent)) / 100, height);
}

const paths = new Map<string, Path2D>();

function icon({ context }: Brush, path: string, x: number, y: number, colour: string, isFilled: boolean): void {
  let shape = paths.get(path);
  if (shape === undefined) {
    shape = new Path2D(path);
    paths.set(path, shape);
  }
  context.save();
  context.translate(x, y);
  context.fillStyle = colour;
  context.strokeStyle = colour;
  context.lineWidth = 1.2;
  if (isFilled) context.fill(shape);
  else context.stroke(shape);
  context.restore();
}

/** Without names: the sign of what needs attention. */
function drawSigns(brush: Brush, run: Run): void {
  const { scene, height, level, width } = brush;
  const first = run.devices[0]!;
  if (level === "parts" && first.isIdle && first.heldMilli > 0)
    icon(brush, MOON, run.x + width / 2 - 6, run.y + height / 2 - 6, scene.paint(first.parts[0]!, first), true);
  if (first.node.isDrained && first.heldMilli > 0)
    for (const device of run.devices)
      cross(brush, run.x + (device.index - first.index) * width + 2, run.y + 2, width * 0.45, height * 0.45);
}

function drawWords(brush: Brush, run: Run, step: number): void {
  const { context, scene, height } = brush;
  run.devices.forEach((device, number) => {
    const x = run.x + number * step;
    const part = device.parts.find((each) => each.kind !== "promised");
    const colour = part === undefined ? scene.look.surface : scene.paint(part, device);
    const isHollow = part === undefined || device.isIdle || part.kind === "leaving";
    const ink = part === undefined ? scene.look.text2 : isHollow ? scene.look.text : inkOn(colour);
    context.font = `400 11px ${scene.look.font}`;
    plate(brush, String(device.index), x + 7, run.y + 14, ink, part?.isOver && !isHollow ? colour : null);
    if (number > 0) {
      context.fillStyle = isHollow ? colour : scene.look.surface;
      context.fillRect(x - 0.75, run.y, 1.5, height);
    }
    foot(brush, device, x, run.y + height - 8, ink, part?.isOver && !isHollow ? colour : null);
  });
  drawNames(brush, run);
}

/** Text, on a plate of the base colour where there are stripes below. */
function plate({ context }: Brush, words: string, x: number, y: number, ink: string, behind: string | null): void {
  if (words === "") return;
  if (behind !== null) {
    context.fillStyle = behind;
    context.beginPath();
    context.roundRect(x - 3, y - 10.5, context.measureText(words).width + 6, 14, 3);
    context.fill();
  }
  context.fillStyle = ink;
  context.fillText(words, x, y);
}

function drawNames(brush: Brush, run: Run): void {
  const { context, scene, width } = brush;
  const first = run.devices[0]!;
  const all = run.devices.length > 1 ? run.width : width;
  let at = run.x;
  for (const part of first.parts) {
    const isPromised = part.kind === "promised";
    const wide = (all * part.milli) / WHOLE;
    const x = isPromised ? run.x : at;
    if (!isPromised) at += wide;
    const colour = scene.paint(part, first);
    const isHollow = first.isIdle || part.kind !== "held";
    const ink = isHollow ? scene.look.text : inkOn(colour);
    context.font = `600 11px ${scene.look.font}`;
    const words = shortened(context, part.name, wide - 11);
    if (words.length > 2 || words === part.name)
      plate(brush, words, x + 7, run.y + (isPromised ? 42 : 29), ink, part.isOver && !isHollow ? colour : null);
    if (part.milli < WHOLE && brush.height >= 66 && wide >= 34) {
      context.font = `400 11px ${scene.look.font}`;
      const amount = part.profile ?? (part.milli / WHOLE).toFixed(2);
      plate(
        brush,
        shortened(context, amount, wide - 9),
        x + 7,
        run.y + 43,
        ink,
        part.isOver && !isHollow ? colour : null,
      );
    }
  }
  if (first.parts.length === 0 && !first.isWithheld) {
    context.font = `400 11px ${scene.look.font}`;
    plate(brush, first.node.isDrained ? "" : text.states.free, run.x + 7, run.y + 29, scene.look.text3, null);
  }
}

/** The strip of utilization with its figure, or since when the device is idle. */
function foot(brush: Brush, device: Device, x: number, y: number, ink: string, behind: string | null): void {
  const { context, scene, width } = brush;
  if (device.heldMilli === 0) return;
  context.font = `400 11px ${scene.look.font}`;
  if (device.isIdle) {
    icon(brush, MOON, x + 6, y - 9, ink, true);
    const room = device.parts.length > 1 ? (width * device.parts[0]!.milli) / WHOLE : width;
    const whole = text.idleFor(device.idleSeconds);
    const words = shortened(context, whole, room - 24);
    const short = words === whole ? whole : shortened(context, text.idleShort(device.idleSeconds), room - 24);
    plate(brush, short.endsWith("…") ? "" : short, x + 21, y, ink, null);
    return;
  }
  const figure = device.utilization === null ? text.unknown : `${device.utilization}%`;
  const wide = context.measureText(figure).width;
  plate(brush, figure, x + width - wide - 6, y, ink, behind);
  if (device.utilization !== null && width - wide - 20 > 8)
    strip(brush, x + 7, y - 5, width - wide - 20, 3, device.utilization, ink);
}

/** Edges that are lines: free, promised and simulated devices. */
function drawEdges(brush: Brush, run: Run, radius: number): void {
  const { context, scene, height } = brush;
  const first = run.devices[0]!;
  context.save();
  context.globalAlpha = alphaOf(scene, first);
  const line = (colour: string, dash: number[], width: number) => {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    context.roundRect(run.x + width / 2, run.y + width / 2, run.width - width, height - width, radius);
    context.stroke();
  };
  const promised = first.parts.find((each) => each.kind === "promised");
  if (first.parts.length === 0) line(scene.look.edge, first.node.isSimulated ? [1.5, 2.5] : [], 1);
  else if (promised !== undefined) line(scene.paint(promised, first), [5, 3], 2);
  else if (first.node.isSimulated) line(mix(scene.look.surface, scene.look.text, 0.75), [1.5, 2.5], 1);
  context.restore();
}
