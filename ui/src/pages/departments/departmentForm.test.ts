import { describe, expect, it } from "vitest";
import type { Schema } from "@/api/client";
import { departmentPool, departmentResources, overDepartments } from "./departmentForm";

describe("quotas of a department", () => {
  it("are the sum of its projects where nothing is set, and stay so", () => {
    const values = departmentPool({ nodePool: { id: "default" }, gpu: {} });
    expect(values.quota).toBeNull();
    expect(departmentResources(values).gpu).toEqual({});
  });

  it("keep unlimited apart from not set", () => {
    const values = departmentPool({ gpu: { deserved: -1 } });
    expect(values.quota).toBe(-1);
    expect(departmentResources(values).gpu).toEqual({ deserved: -1 });
  });

  it("keep what the form does not change", () => {
    const read = { nodePool: { id: "a" }, gpu: { deserved: 4 }, cpu: { deserved: -1 }, preemptMinRuntimeSeconds: 60 };
    expect(departmentResources({ ...departmentPool(read), quota: 6 })).toMatchObject({
      gpu: { deserved: 6 },
      cpu: { deserved: -1 },
      preemptMinRuntimeSeconds: 60,
    });
  });
});

describe("overDepartments", () => {
  const project = (parent: string, deserved: number) =>
    ({
      parent: { name: parent },
      resources: [{ nodePool: { id: "default" }, gpu: { deserved } }],
    }) as Schema<"Project">;
  const department = (name: string, deserved: number | null) =>
    ({ name, resources: [{ nodePool: { id: "default" }, gpu: { deserved } }] }) as Schema<"Department">;

  it("finds those whose projects add up to more", () => {
    const found = overDepartments(
      [department("a", 4), department("b", 4), department("c", null), department("d", -1)],
      [project("a", 3), project("a", 3), project("b", 4), project("c", 9), project("d", 9)],
    );
    expect(found).toEqual([{ department: "a", pool: "default", sum: 6, own: 4 }]);
  });

  it("does not count unlimited projects as minus one", () => {
    expect(overDepartments([department("a", 4)], [project("a", -1), project("a", 5)])[0]?.sum).toBe(5);
  });
});
