/** Settings in words, and where each stands. */
import type { Schema } from "@/api/client";
import { bytes } from "@/model/format";
import { text } from "@/text/settings";

export type Setting = Pick<Schema<"Setting">, "key" | "value" | "default" | "type" | "category">;
export const SECTIONS = ["general", "analytics", "resources", "workloads", "security", "notifications"] as const;
export type Section = (typeof SECTIONS)[number];

export function sectionOf({ key, category }: Pick<Setting, "key" | "category">): Section {
  if (key.startsWith("department.")) return "resources";
  const named = SECTIONS.find((each) => each === category.toLowerCase());
  return named ?? "workloads";
}

const SECONDS = [
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
] as const;

/** `10 hours`, `1 day 12 hours`: at most two units. */
export function timeWords(seconds: number): string {
  const parts: string[] = [];
  let rest = seconds;
  for (const [unit, size] of SECONDS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count} ${text.units[unit]}${count === 1 ? "" : "s"}`);
  }
  return parts.slice(0, 2).join(" ") || `0 ${text.units.second}s`;
}

/** The unit of a setting stands at the end of its name. */
const UNITS: [RegExp, (value: number) => string][] = [
  [/Seconds$/, (value) => timeWords(value)],
  [/Minutes$/, (value) => timeWords(value * 60)],
  [/Days$/, (value) => timeWords(value * 86_400)],
  [/Mebibytes$/, (value) => bytes(value * 1024 * 1024)],
];
/** Of these, zero means that there is no limit. */
const UNLIMITED = /(idle|max)/i;

export function valueWords({ key }: Pick<Setting, "key">, value: Setting["value"]): string {
  if (typeof value === "boolean") return value ? text.on : text.off;
  if (typeof value === "string") return value === "" ? text.none : value;
  const unit = UNITS.find(([form]) => form.test(key))?.[1];
  if (unit === undefined) return String(value);
  return value === 0 && UNLIMITED.test(key) ? text.noLimit : unit(value);
}

export function isDefault(setting: Pick<Setting, "value" | "default">): boolean {
  return setting.value === setting.default;
}

const UNIT = /, in (seconds|minutes|days|MiB)$/;

/** The name of a setting, and the unit of the number that is typed. */
export function labelParts(label: string): { name: string; unit: string | null } {
  const found = UNIT.exec(label);
  return found === null ? { name: label, unit: null } : { name: label.slice(0, found.index), unit: found[1]! };
}
