/** Roles in scopes as they are chosen in a form, and the rules that come of them. */
import type { Schema } from "@/api/client";
import type { ScopeType } from "./question";

export interface RuleRow {
  key: number;
  roleId: string | null;
  scopeType: ScopeType;
  scopeIds: string[];
}

let last = 0;

export function newRow(): RuleRow {
  last += 1;
  return { key: last, roleId: null, scopeType: "project", scopeIds: [] };
}

export function isComplete(row: RuleRow): boolean {
  return row.roleId !== null && (row.scopeType === "tenant" || row.scopeIds.length > 0);
}

/** Every subject with every role in every scope, none twice. */
export function rulesOf(
  subjects: readonly { subjectId: string; subjectType: Schema<"SubjectType"> }[],
  rows: readonly RuleRow[],
): Schema<"AccessRuleRequest">[] {
  const found = new Map<string, Schema<"AccessRuleRequest">>();
  for (const row of rows.filter(isComplete))
    for (const scopeId of row.scopeType === "tenant" ? [""] : row.scopeIds)
      for (const subject of subjects) {
        const rule = { ...subject, roleId: Number(row.roleId), scopeType: row.scopeType, scopeId };
        found.set(JSON.stringify(rule), rule);
      }
  return [...found.values()];
}
