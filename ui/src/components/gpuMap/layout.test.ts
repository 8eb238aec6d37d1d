import { expect, test } from "vitest";
import type { Schema } from "@/api/client";
import { devicesIn, freeBlocks, isHighlighted, type MapNode, mapNodes, migEighths, statesOf } from "./devices";
import { boxOf, grouped, Lookup, layoutOf, ordered } from "./layout";
import { overQuotaWorkloads, startsOf } from "./overQuota";
import { clamped, FIT, levelOf, MARGIN, toLayout, toScreen, zoomed } from "./view";

type Node = Schema<"DeviceNode">;

const node = (name: string, more: Partial<Node> = {}): Node => ({
  name,
  cluster: 0,
  pool: "default",
  status: "Ready",
  cordoned: false,
  drained: false,
  type: "V100",
  memoryMib: 32_000,
  gpus: 8,
  simulated: true,
  message: "",
  holders: [],
  ...more,
});

function pageOf(nodes: Node[], workloads: [id: string, name: string, project: number][] = []): Schema<"DevicePage"> {
  return {
    asOf: "2026-11-17T12:00:00Z",
    count: nodes.length,
    devices: nodes.reduce((sum, each) => sum + each.gpus, 0),
    clusters: [],
    projects: ["team-a", "team-b"],
    users: ["ann"],
    workloads: {
      ids: workloads.map((each) => each[0]),
      names: workloads.map((each) => each[1]),
      projects: workloads.map((each) => each[2]),
      users: workloads.map(() => 0),
    },
    nodes,
  };
}

const nodesOf = (...args: Parameters<typeof pageOf>): MapNode[] => mapNodes(pageOf(...args), new Set(), "hidden");
const many = (count: number, gpus = 8): MapNode[] =>
  nodesOf(Array.from({ length: count }, (_, number) => node(`n${number}`, { gpus })));

const OPTIONS = { width: 1200, height: 560, groupBy: "pool", order: "name" } as const;

test.each([
  ["16 devices have room for names", 2, "names"],
  ["64 devices have room for names", 8, "names"],
  ["300 devices show parts", 37, "parts"],
  ["800 devices are small", 100, "small"],
  ["10 000 devices are cells", 1250, "cells"],
  ["50 000 devices are bars of nodes", 6250, "nodes"],
])("%s", (_, count, level) => {
  const layout = layoutOf(many(count), OPTIONS);
  expect(levelOf(layout.deviceWidth)).toBe(level);
  expect(layout.height).toBeLessThanOrEqual(OPTIONS.height);
});

test("every device is found where it is drawn, and nothing between nodes", () => {
  const layout = layoutOf(many(100), OPTIONS);
  const lookup = new Lookup(layout);
  for (const place of layout.places)
    for (const device of place.node.devices) {
      const box = boxOf(layout, place, device.index);
      expect(lookup.at(box.x + box.width / 2, box.y + box.height / 2)).toBe(device);
      expect(box.x + box.width).toBeLessThanOrEqual(OPTIONS.width);
    }
  expect(lookup.at(OPTIONS.width - 1, layout.height + 500)).toBeNull();
});

test("on a narrow screen the devices of a node break into rows and stay inside", () => {
  const layout = layoutOf(many(2), { ...OPTIONS, width: 340 });
  for (const place of layout.places) expect(place.x + place.width).toBeLessThanOrEqual(340);
  expect(layout.places[0]!.columns).toBeLessThanOrEqual(8);
});

test("an arrow goes to the neighbour, and to the same column of the next node", () => {
  const layout = layoutOf(many(2), { ...OPTIONS, width: 700 });
  const lookup = new Lookup(layout);
  const [first, second] = layout.places;
  const from = first!.node.devices[2]!;
  expect(lookup.next(from, 1, 0)).toBe(first!.node.devices[3]);
  expect(lookup.next(from, 0, 1)).toBe(second!.node.devices[2]);
  expect(lookup.next(from, 0, -1)).toBe(from);
});

test("by holder, the nodes of the project that holds most come first and empty ones last", () => {
  const nodes = nodesOf(
    [
      node("a", { holders: [[0, 1000, [0]]] }),
      node("b"),
      node("c", { holders: [[1, 1000, [0, 1, 2]]] }),
      node("d", { holders: [[1, 1000, [0]]] }),
    ],
    [
      ["1", "x", 0],
      ["2", "y", 1],
    ],
  );
  expect(ordered(nodes, "holder").map((each) => each.name)).toEqual(["c", "d", "a", "b"]);
});

test("packed, the nodes with most room come first; those out of service have none", () => {
  const nodes = nodesOf([
    node("full", { holders: [[-1, 1000, [0, 1, 2, 3, 4, 5, 6, 7]]] }),
    node("drained", { drained: true }),
    node("half", { holders: [[-1, 1000, [0, 1, 2, 3]]] }),
    node("empty"),
  ]);
  expect(ordered(nodes, "packed").map((each) => each.name)).toEqual(["empty", "half", "drained", "full"]);
});

test("nodes are in the order of their numbers, and racks in groups", () => {
  const nodes = nodesOf([node("n10"), node("n2"), node("n1")]);
  nodes[0]!.rack = "r2";
  nodes[1]!.rack = "r1";
  expect(ordered(nodes, "name").map((each) => each.name)).toEqual(["n1", "n2", "n10"]);
  expect(grouped(nodes, "rack", "name").map((each) => each.name)).toEqual(["", "r1", "r2"]);
});

test("free devices count as blocks of 8, 4, 2 and 1 on one node", () => {
  const held = (indexes: number[]): Partial<Node> => ({ holders: [[-1, 400, indexes]] });
  const nodes = nodesOf([
    node("eight"),
    node("seven", held([0])),
    node("none", held([0, 1, 2, 3, 4, 5, 6, 7])),
    node("broken", { withheld: [0, 1, 2, 3, 4] }),
    node("silent", { silentSince: "2026-11-17T11:00:00Z" }),
  ]);
  expect(freeBlocks(nodes)).toEqual({ eights: 1, fours: 1, twos: 2, singles: 2 });
});

test("beyond the quota is what started last, not what was submitted last", () => {
  const page = pageOf(
    [
      node("n", {
        holders: [
          [0, 1000, [0]],
          [1, 1000, [1, 2]],
          [2, 1000, [3]],
        ],
      }),
    ],
    [
      ["id1", "c-1", 0],
      ["id2", "c-4-gg", 0],
      ["id3", "c-5-g", 0],
    ],
  );
  const share = { kind: "project", name: "team-a", nodePool: "default", overQuota: 2 } as Schema<"Share">;
  const starts = startsOf([
    { kind: "lent", workloadId: "id2", at: "2026-11-17T12:00:05Z" },
    { kind: "started", workloadId: "id3", at: "2026-11-17T12:00:01Z" },
  ]);
  expect([...overQuotaWorkloads(page, { shares: [share] }, starts)]).toEqual(["id2"]);
  expect([...overQuotaWorkloads(page, { shares: [{ ...share, overQuota: 0 }] }, starts)]).toEqual([]);
  expect([...overQuotaWorkloads(page, undefined, starts)]).toEqual([]);
});

test("without decisions, the last submitted are beyond the quota", () => {
  const page = pageOf(
    [
      node("n", {
        holders: [
          [0, 1000, [0]],
          [1, 500, [1]],
        ],
      }),
    ],
    [
      ["id1", "x", 0],
      ["id2", "y", 0],
    ],
  );
  const share = { kind: "project", name: "team-a", nodePool: "default", overQuota: 0.5 } as Schema<"Share">;
  expect([...overQuotaWorkloads(page, { shares: [share] })]).toEqual(["id2"]);
});

test("a device says all its states, and hidden work has no name", () => {
  const [made] = nodesOf([
    node("n", { holders: [[-1, 500, [0]]], idle: [0], withheld: [1], leaving: [[-1, 500, [0]]] }),
  ]);
  expect(statesOf(made!.devices[0]!)).toEqual(["in", "idle", "leaving"]);
  expect(statesOf(made!.devices[1]!)).toEqual(["withheld"]);
  expect(statesOf(made!.devices[2]!)).toEqual(["free"]);
  expect(made!.devices[0]!.parts[0]!.name).toBe("hidden");
  expect(made!.devices[0]!.heldMilli).toBe(1000);
});

test("a search finds workloads, people and nodes", () => {
  const [made] = nodesOf([node("dgx1-1", { holders: [[0, 1000, [0]]] })], [["1", "asr-dev", 0]]);
  const [held, free] = made!.devices;
  expect(isHighlighted(held!, { find: "ASR" })).toBe(true);
  expect(isHighlighted(held!, { find: "ann" })).toBe(true);
  expect(isHighlighted(free!, { find: "asr" })).toBe(false);
  expect(isHighlighted(free!, { find: "dgx1" })).toBe(true);
  expect(isHighlighted(free!, { find: "dgx1", project: "team-a" })).toBe(false);
});

test("a project over quota is not found where only another's part is over quota", () => {
  const shared = node("n", {
    holders: [
      [0, 500, [0]],
      [1, 500, [0]],
    ],
  });
  const page = pageOf(
    [shared],
    [
      ["1", "x", 0],
      ["2", "y", 1],
    ],
  );
  const device = mapNodes(page, new Set(["2"]), "hidden")[0]!.devices[0]!;
  expect(isHighlighted(device, { project: "team-a", state: "over" })).toBe(false);
  expect(isHighlighted(device, { project: "team-b", state: "over" })).toBe(true);
});

test("MIG instances take eighths of devices, held ones first", () => {
  expect(["1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb"].map(migEighths)).toEqual([1, 2, 4, 8]);
  const [made] = nodesOf(
    [node("m", { gpus: 2, mig: { "3g.20gb": 4 }, migHolders: [[0, "3g.20gb", 3]] })],
    [["1", "x", 0]],
  );
  expect(made!.devices.map((each) => each.heldMilli)).toEqual([1000, 500]);
});

test("zooming keeps the point under the pointer, and stays inside", () => {
  const layout = { width: 1000, height: 500, deviceWidth: 10 };
  const size = { width: 1000 + 2 * MARGIN, height: 500 + 2 * MARGIN };
  const at = { x: 400, y: 200 };
  const view = zoomed(FIT, 3, at, size, layout);
  expect(toScreen(view, ...toLayout(FIT, at.x, at.y)).map(Math.round)).toEqual([400, 200]);
  expect(zoomed(view, 0.01, at, size, layout)).toEqual(FIT);
  expect(zoomed(FIT, 1000, at, size, layout).scale).toBe(12.8);
  expect(clamped({ x: 900, y: -50, scale: 2 }, size, layout)).toEqual({ x: 500, y: 0, scale: 2 });
});

test("nodes of the same name in two clusters are told apart, and one cluster is shown alone", () => {
  const page = {
    ...pageOf([node("gpu-1"), node("gpu-1", { cluster: 1 }), node("gpu-2", { cluster: 1 })]),
    clusters: [{ id: "a" }, { id: "b" }] as Schema<"DeviceCluster">[],
  };
  const keys = mapNodes(page, new Set(), "hidden").map((each) => each.devices[0]!.key);
  expect(keys).toEqual(["a/gpu-1/0", "b/gpu-1/0", "gpu-2/0"]);
  const inB = devicesIn(page, "b", undefined);
  expect(inB.nodes.map((each) => each.name)).toEqual(["gpu-1", "gpu-2"]);
  expect(inB.devices).toBe(inB.nodes[0]!.gpus + inB.nodes[1]!.gpus);
});
