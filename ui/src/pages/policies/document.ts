/** Policy documents: what binds in them, and where a problem stands in the text. */
import { Document, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from "yaml";
import type { Problem } from "@/api/client";
import { text } from "@/text/policies";

const { binding: words } = text;
type Fields = Record<string, unknown>;

export interface Binding {
  parameter: string;
  default: string | null;
  rules: string[];
  sources: string[];
}

const RULES = ["min", "max", "step", "options", "required", "canEdit", "defaultFrom", "canAdd", "locked"] as const;

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function worded(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function list(value: unknown): string {
  return (Array.isArray(value) ? value : [value]).map(worded).join(", ");
}

/** A rule in words. What permits is left out: `required: false` binds nothing. */
export function ruleWords(rule: Fields): string[] {
  const said: string[] = [];
  if (rule.min != null) said.push(words.min(worded(rule.min)));
  if (rule.max != null) said.push(words.max(worded(rule.max)));
  if (rule.step != null) said.push(words.step(worded(rule.step)));
  if (rule.options != null) said.push(words.options(options(rule.options)));
  if (rule.required === true) said.push(words.required);
  if (rule.canEdit === false) said.push(words.locked);
  if (isFields(rule.defaultFrom))
    said.push(words.defaultFrom(worded(rule.defaultFrom.factor ?? 1), worded(rule.defaultFrom.field)));
  if (rule.canAdd === false) said.push(words.noAdd);
  if (Array.isArray(rule.locked) && rule.locked.length > 0) said.push(words.lockedItems(list(rule.locked)));
  return said;
}

/** The original's client writes options as objects with a value. */
function options(value: unknown): string {
  const all = Array.isArray(value) ? value : [value];
  return list(all.map((each) => (isFields(each) && "value" in each ? each.value : each)));
}

function sourcesOf(rule: Fields): string[] {
  if (isFields(rule.sources)) return [...new Set(Object.values(rule.sources).map(String))];
  return isFields(rule.sourceOfRule) && typeof rule.sourceOfRule.scope === "string" ? [rule.sourceOfRule.scope] : [];
}

/** Every parameter that has a default or a rule, in the order of the document. */
export function bindings(document: Fields, defaultSources: Record<string, string> = {}): Binding[] {
  const found = new Map<string, Binding>();
  const at = (parameter: string): Binding => {
    const known = found.get(parameter) ?? { parameter, default: null, rules: [], sources: [] };
    found.set(parameter, known);
    return known;
  };
  const visitRules = (value: Fields, path: string): void => {
    if (RULES.some((each) => each in value)) {
      const said = ruleWords(value);
      if (said.length === 0) return;
      const row = at(path);
      row.rules.push(...said);
      row.sources.push(...sourcesOf(value));
      return;
    }
    for (const [key, each] of Object.entries(value))
      if (isFields(each)) visitRules(each, path === "" ? key : `${path}.${key}`);
  };
  const visitDefaults = (value: Fields, path: string): void => {
    for (const [key, each] of Object.entries(value)) {
      const parameter = path === "" ? key : `${path}.${key}`;
      if (isFields(each)) visitDefaults(each, parameter);
      else if (each != null) {
        const row = at(parameter);
        row.default = worded(each);
        const source = defaultSources[parameter] ?? defaultSources[path];
        if (source) row.sources.push(source);
      }
    }
  };
  if (isFields(document.defaults)) visitDefaults(document.defaults, "");
  if (isFields(document.rules)) visitRules(document.rules, "");
  return [...found.values()].map((each) => ({ ...each, sources: [...new Set(each.sources)] }));
}

export interface Placed {
  line: number | null;
  what: string;
  fix: string | null;
}

export interface Read {
  /** Null: it cannot be read. */
  document: Fields | null;
  problems: Placed[];
}

/** The document in a text, or why it is none. */
export function readDocument(source: string): Read {
  const lines = new LineCounter();
  const parsed = parseDocument(source, { lineCounter: lines, prettyErrors: false });
  if (parsed.errors.length > 0)
    return {
      document: null,
      problems: parsed.errors.map((each) => ({ line: lines.linePos(each.pos[0]).line, what: each.message, fix: null })),
    };
  const value: unknown = parsed.toJS() ?? {};
  if (!isFields(value)) return { document: null, problems: [{ line: 1, what: text.editor.notMapping, fix: null }] };
  return { document: value, problems: [] };
}

/** Problems of the server with the line of the field that each names, or of the nearest one above it. */
export function placed(source: string, problems: readonly Problem[]): Placed[] {
  const lines = new LineCounter();
  const parsed = parseDocument(source, { lineCounter: lines, prettyErrors: false });
  return problems.map(({ what, fix, field }) => {
    const path = (field ?? "")
      .replace(/^policy\.?/, "")
      .split(/[.[\]]+/)
      .filter((each) => each !== "");
    const offset = field?.startsWith("policy") ? offsetOf(parsed.contents, path) : null;
    return { line: offset === null ? null : lines.linePos(offset).line, what, fix: fix ?? null };
  });
}

function offsetOf(root: unknown, path: readonly string[]): number | null {
  let node: unknown = root;
  let found: number | null = null;
  for (const key of path) {
    if (isMap(node)) {
      const pair = node.items.find((each) => isScalar(each.key) && String(each.key.value) === key);
      if (pair === undefined) return found;
      found = (pair.key as Node).range?.[0] ?? found;
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(key)];
      found = (node as Node | undefined)?.range?.[0] ?? found;
    } else return found;
  }
  return found;
}

/** Adds fields to a document and keeps its comments and order. */
export function withFields(source: string, fields: Fields): string {
  const given = parseDocument(source);
  if (given.errors.length > 0) return source;
  const parsed = isMap(given.contents) ? given : new Document({});
  const set = (value: Fields, path: string[]): void => {
    for (const [key, each] of Object.entries(value)) {
      if (isFields(each)) set(each, [...path, key]);
      else parsed.setIn([...path, key], each);
    }
  };
  set(fields, []);
  return parsed.toString();
}
