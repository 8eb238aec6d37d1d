/** Who lends to whom: quotas above, what is held below, and ribbons between them. All positions are in GPUs. */
import type { Schema } from "@/api/client";

export type Share = Schema<"Share">;
export type Span = readonly [from: number, to: number];

export interface Block {
  key: string;
  /** The project; null: of none (GPUs in no quota, free GPUs) or of projects that the reader may not see. */
  project: string | null;
  kind: "quota" | "unassigned" | "hidden" | "own" | "over" | "free";
  span: Span;
  amount: number;
  /** The quota of this project has no upper end; its block is as wide as what it holds. */
  isUnlimited: boolean;
}

export interface Ribbon {
  key: string;
  /** Null: GPUs in no quota, or projects that the reader may not see. */
  lender: string | null;
  /** Null: projects that the reader may not see. */
  borrower: string | null;
  kind: "own" | "lent" | "unassigned";
  amount: number;
  above: Span;
  below: Span;
}

export interface Lending {
  /** GPUs at the right end. */
  scale: number;
  owed: Block[];
  held: Block[];
  ribbons: Ribbon[];
}

const EPSILON = 1e-6;
const HIDDEN = "\0hidden";
const UNASSIGNED = "\0unassigned";

interface Loan {
  lender: string;
  borrower: string;
  amount: number;
}

function loansOf(shares: readonly Share[]): Loan[] {
  const loans: Loan[] = [];
  for (const each of shares) {
    for (const loan of each.borrowedFrom)
      loans.push({ lender: loan.name ?? HIDDEN, borrower: each.name, amount: loan.gpus });
    if (each.fromUnassigned > 0) loans.push({ lender: UNASSIGNED, borrower: each.name, amount: each.fromUnassigned });
    for (const loan of each.lentTo)
      if (loan.name == null) loans.push({ lender: each.name, borrower: HIDDEN, amount: loan.gpus });
  }
  return loans.filter((each) => each.amount > EPSILON);
}

/** The quotas of projects that have one, together. */
export function sumOfQuotas(shares: readonly { quota?: number | null }[]): number {
  return shares.reduce((sum, each) => sum + (each.quota ?? 0), 0);
}

class Row {
  readonly blocks: Block[] = [];
  private end = 0;

  add(project: string | null, kind: Block["kind"], amount: number, isUnlimited = false): Span {
    const span: Span = [this.end, this.end + Math.max(0, amount)];
    if (amount > EPSILON) {
      this.blocks.push({ key: `${kind}/${project ?? ""}`, project, kind, span, amount, isUnlimited });
      this.end = span[1];
    }
    return span;
  }

  get width(): number {
    return this.end;
  }
}

/** Takes the next part of a span, from left to right. */
class Cutter {
  private at: number;

  constructor(span: Span) {
    this.at = span[0];
  }

  take(amount: number): Span {
    const from = this.at;
    this.at += amount;
    return [from, this.at];
  }
}

/** The picture of one node pool. `capacity` is null where the reader may not see nodes. */
export function lendingOf(shares: readonly Share[], capacity: number | null, free: number | null): Lending {
  const loans = loansOf(shares);
  const total = (of: (loan: Loan) => boolean) => loans.reduce((sum, each) => sum + (of(each) ? each.amount : 0), 0);
  const above = new Row();
  const below = new Row();
  const lenders = new Map<string, Cutter>();
  const borrowers = new Map<string, Cutter>();
  const ribbons: Ribbon[] = [];
  for (const each of shares) {
    const isUnlimited = each.quota == null;
    const quota = above.add(each.name, "quota", each.quota ?? each.inQuota, isUnlimited);
    const own = below.add(each.name, "own", each.inQuota);
    const over = below.add(each.name, "over", each.overQuota);
    const cutter = new Cutter(quota);
    const from = cutter.take(each.inQuota);
    lenders.set(each.name, cutter);
    borrowers.set(each.name, new Cutter(over));
    if (each.inQuota > EPSILON)
      ribbons.push({
        key: `own/${each.name}`,
        lender: each.name,
        borrower: each.name,
        kind: "own",
        amount: each.inQuota,
        above: from,
        below: own,
      });
  }
  const unassigned = Math.max(
    capacity === null ? 0 : capacity - sumOfQuotas(shares),
    total((each) => each.lender === UNASSIGNED),
  );
  lenders.set(
    HIDDEN,
    new Cutter(
      above.add(
        null,
        "hidden",
        total((each) => each.lender === HIDDEN),
      ),
    ),
  );
  lenders.set(UNASSIGNED, new Cutter(above.add(null, "unassigned", unassigned)));
  borrowers.set(
    HIDDEN,
    new Cutter(
      below.add(
        null,
        "hidden",
        total((each) => each.borrower === HIDDEN),
      ),
    ),
  );
  if (free !== null) below.add(null, "free", free);
  ribbons.push(...cut(loans, [...lenders.keys()], [...borrowers.keys()], lenders, borrowers));
  const scale = Math.max(above.width, below.width, capacity ?? 0);
  return { scale, owed: above.blocks, held: below.blocks, ribbons };
}

/** Ribbons leave a lender in the order of the borrowers, and arrive in the order of the lenders: fewer cross. */
function cut(
  loans: readonly Loan[],
  lenderOrder: string[],
  borrowerOrder: string[],
  lenders: Map<string, Cutter>,
  borrowers: Map<string, Cutter>,
): Ribbon[] {
  const place = (order: string[], name: string) => order.indexOf(name);
  const leaving = new Map<Loan, Span>();
  for (const loan of [...loans].sort((a, b) => place(borrowerOrder, a.borrower) - place(borrowerOrder, b.borrower))) {
    const cutter = lenders.get(loan.lender);
    if (cutter !== undefined) leaving.set(loan, cutter.take(loan.amount));
  }
  const ribbons: Ribbon[] = [];
  for (const loan of [...loans].sort((a, b) => place(lenderOrder, a.lender) - place(lenderOrder, b.lender))) {
    const above = leaving.get(loan);
    const cutter = borrowers.get(loan.borrower);
    if (above === undefined || cutter === undefined) continue;
    ribbons.push({
      key: `${loan.lender}/${loan.borrower}`,
      lender: isProject(loan.lender) ? loan.lender : null,
      borrower: isProject(loan.borrower) ? loan.borrower : null,
      kind: loan.lender === UNASSIGNED ? "unassigned" : "lent",
      amount: loan.amount,
      above,
      below: cutter.take(loan.amount),
    });
  }
  return ribbons;
}

function isProject(name: string): boolean {
  return name !== HIDDEN && name !== UNASSIGNED;
}

/** More projects than have a colour of their own: the largest stay, the rest becomes one, named `other`. */
export function folded(shares: readonly Share[], most: number, other: string): Share[] {
  if (shares.length <= most) return [...shares];
  const size = (each: Share) => Math.max(each.quota ?? 0, each.allocated);
  const kept = new Set(
    [...shares]
      .sort((a, b) => size(b) - size(a))
      .slice(0, most - 1)
      .map((each) => each.name),
  );
  const name = (of: string | null | undefined) => (of == null ? null : kept.has(of) ? of : other);
  const rest = shares.filter((each) => !kept.has(each.name));
  const joined = (loans: readonly { name?: string | null; gpus: number }[]) => {
    const sums = new Map<string | null, number>();
    for (const each of loans) sums.set(name(each.name), (sums.get(name(each.name)) ?? 0) + each.gpus);
    return [...sums].map(([of, gpus]) => ({ name: of, gpus }));
  };
  const sum = (of: (share: Share) => number) => rest.reduce((total, each) => total + of(each), 0);
  const within = rest
    .flatMap((each) => each.borrowedFrom)
    .reduce((total, each) => total + (name(each.name) === other ? each.gpus : 0), 0);
  const one: Share = {
    ...rest[0]!,
    name: other,
    quota: sum((each) => each.quota ?? each.inQuota),
    fairShare: sum((each) => each.fairShare),
    allocated: sum((each) => each.allocated),
    inQuota: sum((each) => each.inQuota) + within,
    overQuota: sum((each) => each.overQuota) - within,
    waiting: sum((each) => each.waiting),
    lent: sum((each) => each.lent) - within,
    fromUnassigned: sum((each) => each.fromUnassigned),
    borrowedFrom: joined(rest.flatMap((each) => each.borrowedFrom)).filter((each) => each.name !== other),
    lentTo: joined(rest.flatMap((each) => each.lentTo)).filter((each) => each.name !== other),
  };
  const others = shares
    .filter((each) => kept.has(each.name))
    .map((each) => ({ ...each, borrowedFrom: joined(each.borrowedFrom), lentTo: joined(each.lentTo) }));
  return [...others, one];
}
