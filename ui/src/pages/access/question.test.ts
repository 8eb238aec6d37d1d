import { describe, expect, it } from "vitest";
import { answer, neededCells, type Place, type Question, type RoleGrid, type Rule } from "./question";

const roles: RoleGrid[] = [
  {
    id: 2,
    effectiveEnabled: true,
    permissions: [
      { resourceType: "project", actions: ["create", "read", "update", "delete"] },
      { resourceType: "dashboards-overview", actions: ["read"] },
      { resourceType: "department", actions: ["read", "update"] },
      { resourceType: "nodes", actions: ["read"] },
      { resourceType: "nodepools", actions: ["read"] },
      { resourceType: "network-topologies", actions: ["read"] },
    ],
  },
  { id: 8, effectiveEnabled: true, permissions: [{ resourceType: "trainings", actions: ["create"] }] },
  { id: 30, effectiveEnabled: true, permissions: [{ resourceType: "project", actions: ["read"] }] },
];
const rule = (change: Partial<Rule>): Rule => ({
  id: 1,
  subjectId: "ann",
  subjectType: "user",
  subjectName: "ann@example.com",
  roleId: 8,
  roleName: "L2 researcher",
  scopeType: "project",
  scopeId: "team-a",
  scopeName: "team-a",
  ...change,
});
const teamA: Place = { type: "project", id: "team-a", department: "vision", cluster: "c1" };
const ask = (change: Partial<Question> = {}): Question => ({
  subject: { id: "ann", type: "user", groups: ["ml"] },
  resource: "trainings",
  verb: "create",
  place: teamA,
  ...change,
});

describe("answer", () => {
  it("names the rule that permits", () => {
    const given = [rule({ id: 1 }), rule({ id: 2, subjectId: "bob" })];
    expect(answer(ask(), given, roles).rules.map((each) => each.id)).toEqual([1]);
  });
  it("says no where the rule is for another project, and names that rule", () => {
    const found = answer(ask({ place: { ...teamA, id: "team-b" } }), [rule({})], roles);
    expect(found.isAllowed).toBe(false);
    expect(found.elsewhere.map((each) => each.id)).toEqual([1]);
  });
  it("takes rules of departments, clusters and the whole installation for their projects", () => {
    const given = [
      rule({ id: 1, scopeType: "department", scopeId: "vision" }),
      rule({ id: 2, scopeType: "cluster", scopeId: "c1" }),
      rule({ id: 3, scopeType: "tenant", scopeId: "" }),
      rule({ id: 4, scopeType: "department", scopeId: "speech" }),
    ];
    expect(answer(ask(), given, roles).rules.map((each) => each.id)).toEqual([1, 2, 3]);
  });
  it("takes rules of the user's groups, and of no other group", () => {
    const given = [
      rule({ id: 1, subjectType: "group", subjectId: "ml" }),
      rule({ id: 2, subjectType: "group", subjectId: "hr" }),
    ];
    expect(answer(ask(), given, roles).rules.map((each) => each.id)).toEqual([1]);
  });
  it("does not take a group for a user of the same name", () => {
    const given = [rule({ subjectType: "group", subjectId: "ann" })];
    expect(answer(ask(), given, roles).isAllowed).toBe(false);
  });
  it("wants a rule for the whole installation where the grid does", () => {
    const question = ask({ resource: "department", verb: "update", place: { type: "department", id: "vision" } });
    const inDepartment = rule({ roleId: 2, scopeType: "department", scopeId: "vision" });
    expect(answer(question, [inDepartment], roles)).toMatchObject({ isAllowed: false, isTenantWide: true });
    expect(answer(question, [rule({ roleId: 2, scopeType: "tenant" })], roles).isAllowed).toBe(true);
  });
  it("lets a role in any scope see nodes", () => {
    const question = ask({ resource: "nodes", verb: "read", place: { type: "tenant", id: "" } });
    expect(answer(question, [rule({ roleId: 2 })], roles).isAllowed).toBe(true);
  });
  it("does not let a role in a project create projects", () => {
    const question = ask({ resource: "project", verb: "create" });
    expect(answer(question, [rule({ roleId: 2 })], roles).isAllowed).toBe(false);
    const wider = rule({ roleId: 2, scopeType: "department", scopeId: "vision" });
    expect(answer(question, [wider], roles).isAllowed).toBe(true);
  });
  it("counts cells that have an effect only together", () => {
    expect(neededCells("project", "read")).toEqual(["project read", "dashboards-overview read"]);
    const question = ask({ resource: "project", verb: "read" });
    expect(answer(question, [rule({ roleId: 30 })], roles).isAllowed).toBe(false);
    expect(answer(question, [rule({ roleId: 2 })], roles).isAllowed).toBe(true);
  });
  it("ignores a role that is switched off", () => {
    const off = roles.map((each) => ({ ...each, effectiveEnabled: false }));
    expect(answer(ask(), [rule({})], off)).toMatchObject({ isAllowed: false, elsewhere: [] });
  });
});
