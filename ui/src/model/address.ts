/** Values in the address of a page. Anybody can have written them: a link may say anything. */

/** A word or a number as a text. The router reads `5`, `true` or `{"a":1}` as what they would be in JSON. */
export function wordIn(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  return typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;
}
