/** Colours of the map: the tokens of the present scheme, and what a device is coloured by. */
import { colourOfSlot, slotsOf } from "@/theme/projectColours";
import type { Device, Extra, Part } from "./devices";

export type ColourBy = "project" | "utilization" | "memory" | "temperature" | "user" | "age";

export interface Look {
  surface: string;
  sunken: string;
  border: string;
  edge: string;
  text: string;
  text2: string;
  text3: string;
  accent: string;
  font: string;
}

export function lookOf(root: Element): Look {
  const style = getComputedStyle(root);
  const token = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    surface: token("surface"),
    sunken: token("sunken"),
    border: token("border"),
    edge: token("edge"),
    text: token("text"),
    text2: token("text-2"),
    text3: token("text-3"),
    accent: token("accent"),
    font: token("font") || "system-ui",
  };
}

type Rgb = [number, number, number];

function rgb(hex: string): Rgb {
  const full = hex.length === 4 ? hex.replace(/[\da-f]/gi, "$&$&") : hex;
  const value = Number.parseInt(full.slice(1, 7), 16) || 0;
  return [value >> 16, (value >> 8) & 255, value & 255];
}

const mixes = new Map<string, string>();

/** `amount` of the first colour, the rest of the second. */
export function mix(first: string, second: string, amount: number): string {
  const key = `${first}${second}${amount}`;
  let mixed = mixes.get(key);
  if (mixed === undefined) {
    const a = rgb(first);
    const b = rgb(second);
    const byte = (at: 0 | 1 | 2) => Math.round(a[at] * amount + b[at] * (1 - amount));
    mixed = `#${[byte(0), byte(1), byte(2)].map((each) => each.toString(16).padStart(2, "0")).join("")}`;
    mixes.set(key, mixed);
  }
  return mixed;
}

function luminance(colour: string): number {
  const [r, g, b] = rgb(colour).map((each) => {
    const part = each / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const LIGHT_INK = "#ffffff";
const DARK_INK = "#10131a";
const inks = new Map<string, string>();

/** White or near-black, whichever is easier to read on a colour. */
export function inkOn(colour: string): string {
  let ink = inks.get(colour);
  if (ink === undefined) {
    ink = luminance(colour) > 0.19 ? DARK_INK : LIGHT_INK;
    inks.set(colour, ink);
  }
  return ink;
}

export const STEPS = 5;
/** Upper ends of the steps but the last. Percents, degrees Celsius, and hours. */
export const STEP_ENDS: Record<"utilization" | "memory" | "temperature" | "age", readonly number[]> = {
  utilization: [20, 40, 60, 80],
  memory: [20, 40, 60, 80],
  temperature: [40, 55, 70, 80],
  age: [1, 8, 24, 168],
};

export type Scale = keyof typeof STEP_ENDS;
export const isScale = (by: ColourBy): by is Scale => by in STEP_ENDS;

/** One hue in five steps. */
export function stepColour(step: number, look: Look): string {
  return mix(look.accent, look.surface, [0.16, 0.36, 0.56, 0.78, 1][step]!);
}

export function stepOf(scale: Scale, value: number): number {
  const at = STEP_ENDS[scale].findIndex((end) => value < end);
  return at < 0 ? STEPS - 1 : at;
}

/** The figure that a device is coloured by; null: not known. */
export function figureOf(scale: Scale, device: Device, extra: Extra, now: number): number | null {
  if (scale === "utilization") return device.utilization;
  if (scale === "temperature") return device.temperature;
  if (scale === "memory") {
    const all = device.node.memoryMib * 1024 * 1024;
    return device.memoryBytes === null || all === 0 ? null : (100 * device.memoryBytes) / all;
  }
  const starts = device.parts.map((each) => (each.id === null ? undefined : extra.started?.get(each.id)));
  const known = starts.filter((each) => each !== undefined);
  return known.length === 0 ? null : (now - Math.min(...known)) / 3_600_000;
}

export type Paint = (part: Part, device: Device) => string;

/** The colour of each part. Colours of users are chosen as those of projects, by their names in order. */
export function paintBy(
  by: ColourBy,
  look: Look,
  projectColour: (project: string) => string,
  users: readonly string[],
  scheme: "light" | "dark",
  extra: Extra,
): Paint {
  if (by === "project") return (part) => projectColour(part.project);
  if (by === "user") {
    const slots = slotsOf([...users].sort());
    return (part) => colourOfSlot(slots.get(part.user), scheme);
  }
  const now = Date.now();
  return (_, device) => {
    const figure = figureOf(by, device, extra, now);
    return figure === null ? look.sunken : stepColour(stepOf(by, figure), look);
  };
}
