/** Whether a subject may do something somewhere, and which access rules say so. Follows `control/rbac.py`. */
import type { Schema } from "@/api/client";

export type Resource = Schema<"ResourceType">;
export type Verb = Schema<"Verb">;
export type ScopeType = Schema<"ScopeType">;
export type Rule = Pick<
  Schema<"AccessRule">,
  "id" | "subjectId" | "subjectType" | "subjectName" | "roleId" | "roleName" | "scopeType" | "scopeId" | "scopeName"
>;
export type RoleGrid = Pick<Schema<"Role">, "id" | "effectiveEnabled"> & {
  permissions: { resourceType: Resource; actions: Verb[] }[];
};

export interface Subject {
  id: string;
  type: Schema<"SubjectType">;
  /** Of the identity provider: rules of these groups hold for a user. */
  groups: readonly string[];
}

export interface Place {
  type: ScopeType;
  id: string;
  /** Of a project. */
  department?: string | undefined;
  cluster?: string | undefined;
}

export interface Question {
  subject: Subject;
  resource: Resource;
  verb: Verb;
  place: Place;
}

export interface Answer {
  isAllowed: boolean;
  /** The rules that permit it. */
  rules: Rule[];
  /** Rules with a role that permits it, but elsewhere. */
  elsewhere: Rule[];
  /** It concerns the whole installation, so only rules for all of it count. */
  isTenantWide: boolean;
}

type Cell = `${Resource} ${Verb}`;

const DATA_SOURCES: Resource[] = [
  "pvc-assets",
  "git-assets",
  "host-path-assets",
  "nfs-assets",
  "s3-assets",
  "cm-volume-assets",
  "secret-volume-assets",
];
const VERBS: Verb[] = ["create", "read", "update", "delete"];
const cells = (resources: Resource[], verbs: Verb[]): Cell[][] =>
  verbs.map((verb) => resources.map((each): Cell => `${each} ${verb}`));

/** Cells of the grid that permit something only together. */
const TOGETHER: Cell[][] = [
  ...cells(["workloads", "jobs", "workspaces", "trainings", "inferences"], ["read"]),
  ...cells(["project", "dashboards-overview"], ["read"]),
  ...cells(["nodes", "nodepools", "network-topologies"], ["read"]),
  ...cells(["nodepools", "network-topologies"], ["create", "update", "delete"]),
  ...cells(["settings", "security-settings"], ["read", "update"]),
  ...cells(DATA_SOURCES, VERBS),
];

const ANYWHERE = new Set<Cell>(cells(["nodes", "nodepools", "network-topologies", "cluster"], ["read"]).flat());
const CHANGE: Verb[] = ["create", "update", "delete"];
const TENANT_WIDE = new Set<Cell>(
  [
    ...cells(["department", "nodepools", "network-topologies", "cluster", "users", "roles"], CHANGE),
    ...cells(["apps", "service-account"], VERBS),
    ...cells(["nodes", "storage-class-configuration"], ["update"]),
    ...cells(["cluster-config", "events-history"], ["read"]),
    ...cells(["settings", "security-settings"], ["read", "update"]),
  ].flat(),
);

/** The cells that a role must have for one of them to count. */
export function neededCells(resource: Resource, verb: Verb): Cell[] {
  const cell: Cell = `${resource} ${verb}`;
  return TOGETHER.find((each) => each.includes(cell)) ?? [cell];
}

function permits(role: RoleGrid | undefined, resource: Resource, verb: Verb): boolean {
  if (!role?.effectiveEnabled) return false;
  const has = new Set(
    role.permissions.flatMap((row) => row.actions.map((each): Cell => `${row.resourceType} ${each}`)),
  );
  return neededCells(resource, verb).every((each) => has.has(each));
}

function covers(rule: Rule, { resource, verb, place }: Question): boolean {
  const cell: Cell = `${resource} ${verb}`;
  if (rule.scopeType === "tenant") return true;
  if (TENANT_WIDE.has(cell)) return false;
  if (ANYWHERE.has(cell)) return true;
  if (rule.scopeType === "project")
    return place.type === "project" && place.id === rule.scopeId && cell !== "project create";
  if (rule.scopeType === "department")
    return (place.type === "department" ? place.id : place.department) === rule.scopeId;
  return (place.type === "cluster" ? place.id : place.cluster) === rule.scopeId;
}

function concerns(rule: Rule, subject: Subject): boolean {
  if (rule.subjectType === "group") return subject.groups.includes(rule.subjectId) || isGroup(rule, subject);
  return rule.subjectType === subject.type && rule.subjectId === subject.id;
}

function isGroup(rule: Rule, subject: Subject): boolean {
  return subject.type === "group" && rule.subjectId === subject.id;
}

export function answer(question: Question, rules: readonly Rule[], roles: readonly RoleGrid[]): Answer {
  const { subject, resource, verb } = question;
  const byId = new Map(roles.map((each) => [each.id, each]));
  const fitting = rules.filter((each) => concerns(each, subject) && permits(byId.get(each.roleId), resource, verb));
  const permitting = fitting.filter((each) => covers(each, question));
  return {
    isAllowed: permitting.length > 0,
    rules: permitting,
    elsewhere: permitting.length > 0 ? [] : fitting,
    isTenantWide: TENANT_WIDE.has(`${resource} ${verb}`),
  };
}
