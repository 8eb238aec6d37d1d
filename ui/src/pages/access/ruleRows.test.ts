import { describe, expect, it } from "vitest";
import { isComplete, newRow, rulesOf } from "./ruleRows";

const ann = { subjectId: "ann", subjectType: "user" as const };

describe("rulesOf", () => {
  it("multiplies subjects, roles and scopes", () => {
    const row = { ...newRow(), roleId: "8", scopeIds: ["team-a", "team-b"] };
    const rules = rulesOf([ann, { ...ann, subjectId: "bob" }], [row]);
    expect(rules).toHaveLength(4);
    expect(rules[0]).toEqual({ ...ann, roleId: 8, scopeType: "project", scopeId: "team-a" });
  });
  it("leaves out rows that are not filled in, and repetitions", () => {
    const row = { ...newRow(), roleId: "8", scopeIds: ["team-a"] };
    expect(rulesOf([ann], [row, { ...row, key: 99 }, newRow()])).toHaveLength(1);
  });
  it("takes no scope for the whole installation", () => {
    const row = { ...newRow(), roleId: "1", scopeType: "tenant" as const, scopeIds: ["team-a"] };
    expect(isComplete(row)).toBe(true);
    expect(rulesOf([ann], [row])).toEqual([{ ...ann, roleId: 1, scopeType: "tenant", scopeId: "" }]);
  });
});
