/** One GPU of the kind that a request would get, for the picture of a part of it. */

export interface Device {
  type: string;
  memoryMib: number;
}

interface NodeLike {
  pool: string;
  type?: string | null;
  memoryMib?: number | null;
  gpus: number;
}

/** The most common GPU of the first of these node pools that has any; of all nodes if none is named. */
export function deviceOf(nodes: readonly NodeLike[], pools: readonly string[]): Device | null {
  const wanted = pools.find((pool) => nodes.some((each) => each.pool === pool && each.gpus > 0));
  const counts = new Map<string, { device: Device; gpus: number }>();
  for (const { pool, type, memoryMib, gpus } of nodes) {
    if (!type || !memoryMib || gpus === 0 || (wanted !== undefined && pool !== wanted)) continue;
    const found = counts.get(type) ?? { device: { type, memoryMib }, gpus: 0 };
    counts.set(type, { ...found, gpus: found.gpus + gpus });
  }
  return [...counts.values()].sort((a, b) => b.gpus - a.gpus)[0]?.device ?? null;
}

const UNIT: Record<string, number> = {
  "": 1,
  k: 1e3,
  K: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

/** `4G`, `500Mi` in bytes; null: not a quantity. */
export function quantityBytes(said: string): number | null {
  const found = /^(\d+(?:\.\d+)?)\s*([kKMGT]i?)?B?$/.exec(said.trim());
  const unit = found === null ? undefined : UNIT[found[2] ?? ""];
  return unit === undefined ? null : Number(found![1]) * unit;
}
