/** Looks for words in a long log, a slice at a time, so that the page stays responsive. */
import { plainLine } from "./logLines";
import type { LogStore } from "./logStore";

const SLICE_MS = 8;
/** The most matches that are counted; beyond it the count ends with a plus. */
export const MATCHES_MAX = 20_000;

export class LogSearch {
  /** Numbers of lines from the beginning of the log, dropped ones included. */
  matches: number[] = [];
  /** There are more matches than are kept. */
  isMore = false;
  /** All lines that are there were looked at. */
  isDone = false;
  private at = 0;
  private clears: number;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private readonly words: string;

  constructor(
    private readonly store: LogStore,
    words: string,
    private readonly tell: () => void,
  ) {
    this.words = words.toLowerCase();
    this.clears = store.clears;
  }

  /** Go on to the end of what is there now. */
  run(): void {
    if (this.timer !== null || this.words === "") return;
    this.slice();
  }

  stop(): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
  }

  /** Another log, or the same anew. */
  private begin(): void {
    this.clears = this.store.clears;
    this.matches = [];
    this.isMore = false;
    this.at = 0;
  }

  private slice(): void {
    this.timer = null;
    if (this.clears !== this.store.clears) this.begin();
    const until = performance.now() + SLICE_MS;
    const before = this.matches.length;
    this.at = Math.max(this.at, this.store.dropped);
    while (this.at - this.store.dropped < this.store.length) {
      if ((this.at & 255) === 0 && performance.now() > until) break;
      if (
        plainLine(this.store.line(this.at - this.store.dropped))
          .toLowerCase()
          .includes(this.words)
      ) {
        if (this.matches.length >= MATCHES_MAX) {
          this.isMore = true;
          this.tell();
          return;
        }
        this.matches.push(this.at);
      }
      this.at += 1;
    }
    this.isDone = this.at - this.store.dropped >= this.store.length;
    if (this.matches.length !== before || this.isDone) this.tell();
    if (!this.isDone) this.timer = setTimeout(() => this.slice(), 0);
  }
}
