import { describe, expect, it } from "vitest";
import { folded, lendingOf, type Share } from "./lending";

function share(name: string, quota: number | null, held: number, more: Partial<Share> = {}): Share {
  const inQuota = quota === null ? held : Math.min(held, quota);
  return {
    name,
    kind: "project",
    nodePool: "default",
    quota,
    fairShare: held,
    overQuotaWeight: 1,
    allocated: held,
    inQuota,
    overQuota: held - inQuota,
    leaving: 0,
    promised: 0,
    waiting: 0,
    asked: held,
    lent: 0,
    borrowed: held - inQuota,
    lentTo: [],
    borrowedFrom: [],
    fromUnassigned: 0,
    ...more,
  };
}

const loan = (name: string | null, gpus: number) => ({ name, gpus });

/** The end of the NetApp walkthrough: team-d lends its eight GPUs to the others. */
const NETAPP = [
  share("team-a", 4, 8, { borrowedFrom: [loan("team-d", 4)] }),
  share("team-b", 2, 4, { borrowedFrom: [loan("team-d", 2)] }),
  share("team-c", 2, 4, { borrowedFrom: [loan("team-d", 2)] }),
  share("team-d", 8, 0, { lent: 8, lentTo: [loan("team-a", 4), loan("team-b", 2), loan("team-c", 2)] }),
];

describe("lendingOf", () => {
  it("puts quotas above and what is held below, each project's own part first", () => {
    const picture = lendingOf(NETAPP, 16, 0);
    expect(picture.scale).toBe(16);
    expect(picture.owed.map((each) => [each.project, each.amount])).toEqual([
      ["team-a", 4],
      ["team-b", 2],
      ["team-c", 2],
      ["team-d", 8],
    ]);
    expect(picture.held.map((each) => [each.project, each.kind, each.span])).toEqual([
      ["team-a", "own", [0, 4]],
      ["team-a", "over", [4, 8]],
      ["team-b", "own", [8, 10]],
      ["team-b", "over", [10, 12]],
      ["team-c", "own", [12, 14]],
      ["team-c", "over", [14, 16]],
    ]);
  });

  it("leads each loan from its lender's quota to the part that its borrower holds beyond its own", () => {
    const lent = lendingOf(NETAPP, 16, 0).ribbons.filter((each) => each.kind === "lent");
    expect(lent.map((each) => [each.lender, each.borrower, each.above, each.below])).toEqual([
      ["team-d", "team-a", [8, 12], [4, 8]],
      ["team-d", "team-b", [12, 14], [10, 12]],
      ["team-d", "team-c", [14, 16], [14, 16]],
    ]);
  });

  it("never draws two ribbons over each other at either end", () => {
    const two = [
      share("a", 2, 5, { borrowedFrom: [loan("c", 1.5), loan("d", 1.5)] }),
      share("b", 2, 5, { borrowedFrom: [loan("c", 1.5), loan("d", 1.5)] }),
      share("c", 5, 2, { lent: 3, lentTo: [loan("a", 1.5), loan("b", 1.5)] }),
      share("d", 5, 2, { lent: 3, lentTo: [loan("a", 1.5), loan("b", 1.5)] }),
    ];
    const { ribbons } = lendingOf(two, 14, 0);
    for (const end of ["above", "below"] as const) {
      const spans = ribbons.map((each) => each[end]).sort((x, y) => x[0] - y[0]);
      for (let i = 1; i < spans.length; i += 1) expect(spans[i]![0]).toBeGreaterThanOrEqual(spans[i - 1]![1] - 1e-9);
    }
  });

  it("shows GPUs in no quota as a lender of their own", () => {
    const picture = lendingOf([share("a", 2, 6, { fromUnassigned: 4 })], 8, 2);
    expect(picture.owed.at(-1)).toMatchObject({ kind: "unassigned", amount: 6, project: null });
    expect(picture.ribbons.at(-1)).toMatchObject({ kind: "unassigned", above: [2, 6], below: [2, 6] });
    expect(picture.held.at(-1)).toMatchObject({ kind: "free", amount: 2 });
  });

  it("is as wide as the quotas if they add up to more than the pool", () => {
    expect(lendingOf([share("a", 12, 4), share("b", 8, 4)], 16, 8).scale).toBe(20);
  });

  it("gives an unlimited quota the width of what it holds", () => {
    const [block] = lendingOf([share("a", null, 3)], 8, 5).owed;
    expect(block).toMatchObject({ amount: 3, isUnlimited: true });
  });

  it("joins lenders and borrowers that the reader may not see", () => {
    const picture = lendingOf(
      [share("a", 1, 3, { borrowedFrom: [loan(null, 2)] }), share("b", 4, 1, { lent: 3, lentTo: [loan(null, 3)] })],
      null,
      null,
    );
    expect(picture.owed.filter((each) => each.kind === "hidden")).toMatchObject([{ amount: 2 }]);
    expect(picture.held.filter((each) => each.kind === "hidden")).toMatchObject([{ amount: 3 }]);
    expect(picture.ribbons.filter((each) => each.lender === null || each.borrower === null)).toHaveLength(2);
  });
});

describe("folded", () => {
  it("keeps the largest, and what is borrowed still adds up", () => {
    const all = [
      ...NETAPP,
      share("x", 1, 0, { lent: 1, lentTo: [loan("y", 1)] }),
      share("y", 0, 1, { borrowedFrom: [loan("x", 1)] }),
    ];
    const few = folded(all, 5, "other");
    expect(few.map((each) => each.name)).toEqual(["team-a", "team-b", "team-c", "team-d", "other"]);
    const other = few.at(-1)!;
    expect(other).toMatchObject({ quota: 1, inQuota: 1, overQuota: 0, borrowedFrom: [], lentTo: [] });
  });

  it("leaves few projects alone", () => {
    expect(folded(NETAPP, 20, "other")).toEqual(NETAPP);
  });
});
