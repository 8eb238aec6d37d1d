/** The lines of a log in the page: appended in pieces, kept in chunks, read by number. */

const CHUNK = 512;
/** Lines and characters that are kept; what is older is dropped, and only the download has it. */
export const LINES_MAX = 2048 * CHUNK;
export const CHARACTERS_MAX = 64 * 1024 * 1024;
/** Readers are told at most this often. */
const TELL_MS = 80;
/** A line without an end is cut here, so that no single one fills the memory. */
const LINE_MAX = 64 * 1024;

export class LogStore {
  private chunks: string[][] = [];
  private tail = "";
  private count = 0;
  private sizes: number[] = [];
  private size = 0;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private readonly watchers = new Set<() => void>();
  /** Lines that were dropped at the beginning. */
  dropped = 0;
  version = 0;
  /** How often it was emptied: line numbers from before mean nothing now. */
  clears = 0;

  /** Complete lines, and the one that is being written. */
  get length(): number {
    return this.count + (this.tail === "" ? 0 : 1);
  }

  /** By its number among those that are kept. */
  line(index: number): string {
    if (index === this.count) return this.tail;
    return this.chunks[Math.floor(index / CHUNK)]?.[index % CHUNK] ?? "";
  }

  push(text: string): void {
    if (text === "") return;
    const pieces = (this.tail + text).split("\n");
    this.tail = pieces.pop()!;
    for (const each of pieces) this.add(each);
    if (this.tail.length > LINE_MAX) {
      this.add(this.tail);
      this.tail = "";
    }
    this.tellSoon();
  }

  private add(line: string): void {
    let last = this.chunks[this.chunks.length - 1];
    if (last === undefined || last.length === CHUNK) {
      last = [];
      this.chunks.push(last);
      this.sizes.push(0);
    }
    const kept = line.length > LINE_MAX ? line.slice(0, LINE_MAX) : line;
    last.push(kept);
    this.sizes[this.sizes.length - 1]! += kept.length;
    this.size += kept.length;
    this.count += 1;
    if (this.count > LINES_MAX || (this.size > CHARACTERS_MAX && this.chunks.length > 1)) this.dropFirst();
  }

  private dropFirst(): void {
    this.chunks.shift();
    this.size -= this.sizes.shift()!;
    this.count -= CHUNK;
    this.dropped += CHUNK;
  }

  clear(): void {
    this.chunks = [];
    this.sizes = [];
    this.size = 0;
    this.tail = "";
    this.count = 0;
    this.dropped = 0;
    this.clears += 1;
    this.tell();
  }

  subscribe = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  private tellSoon(): void {
    this.timer ??= setTimeout(() => this.tell(), TELL_MS);
  }

  private tell(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    this.version += 1;
    for (const each of this.watchers) each();
  }
}
