import { expect, test } from "vitest";
import type { Schema } from "@/api/client";
import { mapNodes } from "@/components/gpuMap/devices";
import { deviceCsv, rowsOf } from "./deviceRows";
import { holders, states, steps, sumOf } from "./legend";
import { readState, writeState } from "./mapState";

const page = {
  clusters: [],
  projects: ["team-a", "team-b"],
  users: ["ann", "bob"],
  workloads: { ids: ["1", "2"], names: ["a-1", "=b"], projects: [0, 1], users: [0, 1] },
  nodes: [
    {
      name: "n1",
      cluster: 0,
      pool: "default",
      status: "Ready",
      gpus: 4,
      type: "V100",
      memoryMib: 0,
      cordoned: false,
      drained: false,
      simulated: false,
      message: "",
      holders: [
        [0, 500, [0]],
        [1, 250, [0]],
        [1, 1000, [1]],
      ],
      promised: [[0, 1000, [2]]],
      utilization: [95, 10, null, null],
      withheld: [3],
    },
  ],
} as unknown as Schema<"DevicePage">;
const nodes = mapNodes(page, new Set(["2"]), "hidden");

test("the legend counts what each project holds, parts as parts, and not what is only promised", () => {
  expect(holders(nodes, "project")).toEqual([
    { name: "team-b", gpus: 1.25 },
    { name: "team-a", gpus: 0.5 },
  ]);
  expect(holders(nodes, "user").map((each) => each.name)).toEqual(["bob", "ann"]);
});

test("states count GPUs in and over quota, and devices otherwise", () => {
  expect(states(nodes)).toEqual([
    { state: "in", count: 0.5 },
    { state: "over", count: 1.25 },
    { state: "idle", count: 0 },
    { state: "free", count: 1 },
    { state: "promised", count: 1 },
    { state: "withheld", count: 1 },
  ]);
});

test("steps count held devices, and say how many were not measured", () => {
  expect(steps(nodes, "utilization", {}, 0)).toEqual([1, 0, 0, 0, 1, 0]);
  expect(steps(nodes, "temperature", {}, 0)).toEqual([0, 0, 0, 0, 0, 2]);
});

test("the sum of a selection", () => {
  const sum = sumOf(nodes[0]!.devices.slice(0, 3));
  expect(sum).toMatchObject({ devices: 3, nodes: 1, allocated: 1.75, inQuota: 0.5, overQuota: 1.25, free: 1 });
  expect(sum.utilization).toBe(52.5);
});

test("the table has a row for each holder, and a file that no spreadsheet computes", () => {
  const rows = rowsOf(nodes, () => true);
  expect(rows.map((each) => [each.device.index, each.part?.name ?? null])).toEqual([
    [0, "a-1"],
    [0, "=b"],
    [1, "=b"],
    [2, "a-1"],
    [3, null],
  ]);
  expect(deviceCsv(rows)).toContain("n1,0,V100,default,,'=b,team-b,bob,0.25,over quota,95");
});

test("the address has what differs from the usual, and nonsense in it is ignored", () => {
  expect(readState({ by: "nonsense", pin: "n1/3", find: 12 }, 800)).toMatchObject({
    by: "project",
    order: "holder",
    pin: "n1/3",
    find: "12",
    isTable: false,
  });
  expect(writeState({ by: "project", pin: undefined, isTable: true })).toEqual({
    by: undefined,
    pin: undefined,
    view: "table",
  });
});
