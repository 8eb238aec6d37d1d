import { expect, it } from "vitest";
import { cellsOf, permissionsOf, toggled } from "./PermissionGrid";

it("sets and clears cells together that have no effect alone", () => {
  const on = toggled(new Set(), "project", "read");
  expect([...on]).toEqual(["project read", "dashboards-overview read"]);
  expect(toggled(on, "dashboards-overview", "read").size).toBe(0);
});

it("turns rows into cells and back", () => {
  const rows = [{ resourceType: "templates" as const, actions: ["read" as const, "update" as const] }];
  expect(permissionsOf(cellsOf(rows))).toEqual(rows);
});
