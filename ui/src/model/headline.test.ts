import { describe, expect, it } from "vitest";
import { type Facts, headline, troubles } from "./headline";

/** The end of NetApp 4.10. */
const netapp: Facts = {
  nodes: 2,
  readyNodes: 2,
  gpus: 16,
  readyGpus: 16,
  allocated: 16,
  free: 0,
  pending: 2,
  pendingGpus: 4,
  idle: 0,
  silent: [],
  quotas: 16,
  capacity: 16,
  lenders: [{ project: "team-d", lent: 8, to: ["team-a", "team-b", "team-c"] }],
  nextStart: "11:09",
};

describe("the headline", () => {
  it("states the pool's condition, who lends, and who waits until when", () => {
    expect(headline(netapp)).toEqual({
      title: "Every GPU is in use",
      lead: "16 of 16 allocated. team-d lends 8 to three projects. Two workloads wait for 4 GPUs; the next is expected to start at about 11:09.",
    });
  });

  it("says the worst first, and the rest below", () => {
    const bad = {
      ...netapp,
      readyNodes: 1,
      silent: [{ name: "dgx1-2", since: "10:42" }],
      quotas: 18,
      idle: 3,
      waitsInQuota: true,
    };
    expect(troubles(bad)).toEqual([
      "Node dgx1-2 is silent since 10:42",
      "Quotas add up to 18 of 16 GPUs",
      "3 allocated GPUs are idle",
    ]);
    const said = headline(bad);
    expect(said.title).toBe("Node dgx1-2 is silent since 10:42");
    expect(said.lead).toMatch(/^Quotas add up to 18 of 16 GPUs\. 3 allocated GPUs are idle\. Every GPU is in use\./);
  });

  it("says that quotas add up to more after the pool's condition, unless somebody waits within quota", () => {
    const said = headline({ ...netapp, quotas: 20 });
    expect(said.title).toBe("Every GPU is in use");
    expect(said.lead).toMatch(/^16 of 16 allocated\. Quotas add up to 20 of 16 GPUs\. team-d lends/);
    expect(headline({ ...netapp, quotas: 20, waitsInQuota: true }).title).toBe("Quotas add up to 20 of 16 GPUs");
  });

  it("tells nodes that are silent from nodes that are not ready", () => {
    const bad = { ...netapp, nodes: 5, readyNodes: 2, silent: [{ name: "a" }, { name: "b" }] };
    expect(troubles(bad)).toEqual(["2 nodes are silent", "1 node is not ready"]);
  });

  it("says nothing about what is not known", () => {
    const { idle: _i, silent: _s, quotas: _q, capacity: _c, lenders: _l, ...known } = netapp;
    expect(troubles({ ...known, idle: null, quotas: null })).toEqual([]);
    expect(headline(known).lead).not.toContain("lend");
  });

  it("begins with yours for people who see their own work only", () => {
    const own = { ...netapp, idle: 1, yours: { running: 2, pending: 1, gpus: 1.5 } };
    expect(headline(own).title).toBe("Yours: 2 running on 1.50 GPUs, 1 waiting");
    expect(headline(own).lead).toMatch(/^1 allocated GPU is idle\. Every GPU is in use\./);
    expect(headline({ ...own, yours: { running: 0, pending: 0, gpus: 0 } }).title).toBe(
      "Yours: nothing runs and nothing waits",
    );
  });

  it("names free GPUs that waiting work cannot use", () => {
    expect(headline({ ...netapp, allocated: 13, free: 3 }).title).toBe("Work waits although 3 GPUs are free");
    expect(headline({ ...netapp, allocated: 13, free: 3, waitsForGpus: false }).title).toBe("3 of 16 GPUs are free");
    expect(headline({ ...netapp, allocated: 15.6, free: 0 }).title).toBe("0.4 of 16 GPUs are free");
  });

  it("does not call an empty pool full", () => {
    const none = { ...netapp, nodes: 0, readyNodes: 0, gpus: 0, readyGpus: 0, allocated: 0, pending: 0 };
    expect(headline(none)).toMatchObject({ title: "No nodes have reported yet" });
    expect(headline({ ...none, nodes: 1, readyNodes: 1 }).title).toBe("There are no GPUs here");
    expect(headline({ ...netapp, allocated: 0, free: 16, pending: 0, lenders: [] })).toEqual({
      title: "All GPUs are free",
      lead: "0 of 16 allocated. Nothing waits.",
    });
  });

  it("sums several lenders and names the largest first", () => {
    const two = { ...netapp, lenders: [{ project: "demo", lent: 1.6, to: ["x"] }, netapp.lenders![0]!] };
    expect(headline(two).lead).toContain("team-d and demo lend 9.6 to others.");
  });
});
