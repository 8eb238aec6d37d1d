/** Refusals of the server in sentences. */
import { ApiError, type Problem } from "@/api/client";

export function sentence({ what, fix }: Pick<Problem, "what"> & { fix?: string | null }): string {
  const said = fix ? `${what}: ${fix}` : what;
  return said.charAt(0).toUpperCase() + said.slice(1);
}

/** What is wrong with one field and those within it; nothing: `undefined`. */
export function problemOf(error: unknown, field: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const found = error.problems.filter(
    (each) => each.field === field || each.field?.startsWith(`${field}.`) || each.field?.startsWith(`${field}[`),
  );
  return found.length === 0 ? undefined : found.map(sentence).join(" · ");
}

/** What is wrong beside these fields. */
export function otherProblems(error: unknown, fields: readonly string[]): string[] {
  if (error == null) return [];
  if (!(error instanceof ApiError) || error.problems.length === 0)
    return [error instanceof Error ? error.message : String(error)];
  return error.problems
    .filter((each) => !fields.some((field) => each.field === field || each.field?.startsWith(`${field}.`)))
    .map(sentence);
}
