/** A form as a table: each field of the API with its control. The forms of submits and assets are made of these. */
import type { Fields } from "@/model/paths";

export type Control =
  | "text"
  | "area"
  | "number"
  | "switch"
  | "choice"
  | "suggest"
  | "tags"
  | "names"
  | "duration"
  | "secret"
  | "variant"
  | "list";

export interface Option {
  value: string;
  label: string;
}

export interface FieldDescription {
  /** Where the value is, within the specification or within the item of a list. */
  path: string;
  label: string;
  hint?: string;
  control: Control;
  placeholder?: string;
  options?: readonly Option[];
  /** The suggestions of the form that this field takes: claims, credentials, node pools. */
  source?: string;
  /** Suggestions that depend on the other values of the item: the keys of a credential. */
  sourceOf?: (item: Fields) => string;
  min?: number;
  max?: number;
  step?: number;
  /** Of a list: the fields of an item. */
  columns?: readonly FieldDescription[];
  /** Of a list: what a new item has. */
  blank?: Fields;
  /** Of a list: how one item is called. */
  item?: string;
  /** Of a variant: which one an item is, and what it has when another one is chosen. */
  variantOf?: (item: Fields) => string;
  toVariant?: (item: Fields, variant: string) => Fields;
  isShown?: (values: Fields) => boolean;
  isWide?: boolean;
  isRequired?: boolean;
}

/** What policies and templates say about a field. */
export interface Bound {
  isLocked: boolean;
  isRequired: boolean;
  min?: number | string;
  max?: number | string;
  step?: number | string;
  options?: string[];
  canAdd: boolean;
  /** The policy that each rule is from. */
  source?: string;
  /** The value that the workload gets if nothing is said here, and where it is from. */
  given?: unknown;
  origin?: string;
}

export const UNBOUND: Bound = { isLocked: false, isRequired: false, canAdd: true };

export interface SpecFormState {
  values: Fields;
  set: (path: string, value: unknown) => void;
  /** Set everything at once: another variant has other fields. */
  replace?: (values: Fields) => void;
  /** What the server says about a field, by its path in the specification. */
  problemAt: (path: string) => string | undefined;
  boundAt: (path: string) => Bound;
  suggestions: Readonly<Record<string, readonly string[]>>;
  /** Where an item of a list that was not typed here comes from. */
  givenItems: (path: string) => { item: Fields; origin: string }[];
}

/** `90m`, `2h 30m`, `1d` or plain seconds, in seconds; null: none of these. */
export function secondsOf(said: string): number | null {
  const plain = said.trim().toLowerCase();
  if (/^\d+$/.test(plain)) return Number(plain);
  if (!/^(\d+(\.\d+)?\s*(d|h|m|min|s)\s*)+$/.test(plain)) return null;
  const units: Record<string, number> = { d: 86_400, h: 3600, m: 60, min: 60, s: 1 };
  let seconds = 0;
  for (const [, amount, , unit] of plain.matchAll(/(\d+(\.\d+)?)\s*(d|h|min|m|s)/g))
    seconds += Number(amount) * units[unit!]!;
  return Math.round(seconds);
}

/** A value in a sentence: `2`, `python`, `a, b`. */
export function inWords(value: unknown): string {
  if (Array.isArray(value)) return value.map(inWords).join(", ");
  if (typeof value === "object" && value !== null)
    return Object.values(value)
      .filter((each) => each !== "" && each !== null && each !== undefined && each !== false)
      .map(inWords)
      .join(" · ");
  return String(value);
}
