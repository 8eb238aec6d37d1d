/** Where each line of a long log stands, without an object for each. Pure. */

export const LINE_PX = 18;
/** Browsers cut off elements that are higher; beyond it, the scroll bar moves faster than the lines. */
export const HEIGHT_MAX = 15_000_000;
const BLOCK = 1024;

/** Rows of the screen that lines take, summed over blocks, so that a position is found in two steps. */
export class RowIndex {
  private rows: Uint16Array = new Uint16Array(BLOCK);
  private sums: number[] = [];
  private counted = 0;
  total = 0;

  constructor(private readonly rowsOf: ((index: number) => number) | null) {}

  /** Take in lines that came since; `count` are all there are. The last one may still have grown. */
  grow(count: number): void {
    if (count < this.counted) this.reset();
    if (this.rowsOf === null) {
      this.counted = count;
      this.total = count;
      return;
    }
    for (let index = Math.max(0, this.counted - 1); index < count; index += 1) this.take(index, this.counted > index);
    this.counted = count;
  }

  /** Another log, or the same anew. */
  private reset(): void {
    this.sums = [];
    this.counted = 0;
    this.total = 0;
  }

  private take(index: number, isAgain: boolean): void {
    if (index >= this.rows.length) {
      const larger = new Uint16Array(this.rows.length * 2);
      larger.set(this.rows);
      this.rows = larger;
    }
    const now = Math.min(65_535, this.rowsOf!(index));
    const before = isAgain ? this.rows[index]! : 0;
    this.rows[index] = now;
    const block = Math.floor(index / BLOCK);
    this.sums[block] = (this.sums[block] ?? 0) + now - before;
    this.total += now - before;
  }

  /** The line at a row, and the row where it begins. */
  at(row: number): { line: number; row: number } {
    if (this.rowsOf === null) {
      const line = Math.max(0, Math.min(this.counted - 1, Math.floor(row)));
      return { line, row: line };
    }
    let begun = 0;
    let block = 0;
    while (block < this.sums.length - 1 && begun + this.sums[block]! <= row) begun += this.sums[block++]!;
    let line = block * BLOCK;
    while (line < this.counted - 1 && begun + this.rows[line]! <= row) begun += this.rows[line++]!;
    return { line, row: begun };
  }

  /** The row where a line begins. */
  rowOf(line: number): number {
    if (this.rowsOf === null) return line;
    let row = 0;
    const block = Math.floor(line / BLOCK);
    for (let each = 0; each < block; each += 1) row += this.sums[each] ?? 0;
    for (let each = block * BLOCK; each < line; each += 1) row += this.rows[each]!;
    return row;
  }
}

/** Between what the scroll bar says and the pixels of the whole log. */
export function stretched(scrollTop: number, total: number, view: number): number {
  const height = Math.min(total, HEIGHT_MAX);
  if (height === total || height <= view) return scrollTop;
  return (scrollTop * (total - view)) / (height - view);
}

export function squeezed(top: number, total: number, view: number): number {
  const height = Math.min(total, HEIGHT_MAX);
  if (height === total || height <= view) return top;
  return (top * (height - view)) / (total - view);
}
