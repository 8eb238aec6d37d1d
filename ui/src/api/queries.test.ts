import { expect, it } from "vitest";
import { permits } from "./queries";

it("takes the permission for one kind of workload for enough, and nothing else for it", () => {
  expect(permits(["workspace.update"], "workload.update")).toBe(true);
  expect(permits(["workspace.update"], "workload.delete")).toBe(false);
  expect(permits(["project.update"], "workload.update")).toBe(false);
  expect(permits(["project.update"], "project.update")).toBe(true);
});
