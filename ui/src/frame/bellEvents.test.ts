import { expect, test } from "vitest";
import type { Schema } from "@/api/client";
import { allSeen, isUnread, ofDecisions, ofDeliveries, ofIdle, ofNodes, ofShares } from "./bellEvents";

const decision = (more: Partial<Schema<"Decision">>): Schema<"Decision"> => ({
  id: `c/${more.workloadName}`,
  sequence: 1,
  clusterId: "c",
  at: "2026-11-17T12:00:00.000Z",
  kind: "started",
  message: "",
  workloadId: `id-${more.workloadName}`,
  workloadName: "",
  projectId: "team-a",
  departmentId: "default",
  submittedBy: "ann",
  pods: 1,
  gpus: 1,
  lentGpus: 0,
  nodes: [],
  ...more,
});

test("starts within a minute are one notification, later ones another", () => {
  const notices = ofDecisions([
    decision({ workloadName: "c", at: "2026-11-17T12:10:00Z" }),
    decision({ workloadName: "b", at: "2026-11-17T12:00:30Z", kind: "lent", lentGpus: 1 }),
    decision({ workloadName: "a", at: "2026-11-17T12:00:00Z" }),
  ]);
  expect(notices.map((each) => each.title)).toEqual(["c started", "b and a started"]);
  expect(notices[0]!.link).toEqual({ path: "/workloads/id-c" });
  expect(notices[1]!.detail).toBe("2.00 GPUs, 1.00 of them beyond the quota");
});

test("what was taken back says for whom and why", () => {
  const [notice] = ofDecisions([
    decision({
      workloadName: "c-4",
      kind: "taken-back",
      winner: "d-3",
      gaining: { name: "team-d", isDepartment: false, isHidden: false },
      message: "team-c is 2 GPUs over its quota",
    }),
  ]);
  expect(notice).toMatchObject({
    group: "lost",
    title: "c-4 gave 1 GPU to d-3 of team-d",
    detail: "team-c is 2 GPUs over its quota",
  });
});

test("a promise is not a start", () => {
  expect(ofDecisions([decision({ workloadName: "a", kind: "promised" })])).toEqual([]);
});

test("a limit that is near is told once, whatever channels it went through", () => {
  const delivery = {
    event: "near-limit",
    workload: "a",
    project: "p",
    at: "2026-11-17T12:00:00Z",
    state: "sent",
    tries: 1,
    problem: "",
  };
  const deliveries = [
    { ...delivery, id: "1", channel: "mail" },
    { ...delivery, id: "2", channel: "webhook" },
    { ...delivery, id: "3", channel: "mail", event: "started" },
  ];
  expect(ofDeliveries(deliveries)).toHaveLength(1);
});

test("quotas above the pool, without those that are unlimited", () => {
  const share = (quota: number | null) => ({ kind: "project", nodePool: "default", quota }) as Schema<"Share">;
  const pools = [{ nodePool: "default", capacity: 16 }] as Schema<"PoolTotals">[];
  expect(ofShares({ pools, shares: [share(12), share(6), share(null)] })[0]!.detail).toContain("18 GPUs");
  expect(ofShares({ pools, shares: [share(12), share(4)] })).toEqual([]);
});

test("nothing measured is not nothing idle, and neither is told", () => {
  expect(ofIdle(null, 4)).toEqual([]);
  expect(ofIdle(3, 4)).toEqual([]);
  expect(ofIdle(4, 4)).toHaveLength(1);
  expect(ofIdle(0, 0)).toEqual([]);
});

test("what was read stays read; a condition that has changed is unread again", () => {
  const now = Date.parse("2026-11-17T13:00:00Z");
  const notices = [
    ...ofDecisions([decision({ workloadName: "a" })]),
    ...ofNodes([{ name: "n1", clusterUuid: "c", silentSince: "2026-11-17T12:59:00Z" }], now),
  ];
  expect(notices.every((each) => isUnread(each, {}, now))).toBe(true);
  const seen = allSeen(notices, now);
  expect(notices.some((each) => isUnread(each, seen, now))).toBe(false);
  expect(notices.at(-1)!.link).toEqual({ path: "/nodes/n1", search: { cluster: "c" } });
  const clusterUuid = "c";
  const [changed] = ofNodes(
    [
      { name: "n1", clusterUuid },
      { name: "n2", clusterUuid },
    ],
    now,
  );
  expect(isUnread(changed!, seen, now)).toBe(true);
});
