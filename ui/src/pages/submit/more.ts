/** The fields that were given as YAML. */
import { parseDocument } from "yaml";
import { type Fields, isFields } from "@/model/paths";
import { text } from "@/text/submit";

export interface More {
  fields: Fields;
  error: string | null;
}

export function readMore(written: string): More {
  if (written.trim() === "") return { fields: {}, error: null };
  const document = parseDocument(written, { prettyErrors: true });
  const [error] = document.errors;
  if (error !== undefined) return { fields: {}, error: error.message };
  const value: unknown = document.toJS({ maxAliasCount: 0 });
  if (value === null || value === undefined) return { fields: {}, error: null };
  return isFields(value) ? { fields: value, error: null } : { fields: {}, error: text.more.notFields };
}
