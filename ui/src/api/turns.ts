/** Questions for which a cluster plans: one at a time, so that they never keep a list waiting for a connection. */

/** After an answer that took this long, nothing is asked for a while: the pool is large, and planning costs it time. */
export const SLOW_MS = 500;
export const REST_MS = 60_000;

export class Turns {
  private last: Promise<unknown> = Promise.resolve();
  private restsUntil = 0;

  /** The answer in its turn; null: the cluster is given a rest, or the question is no longer of interest. */
  ask<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T | null> {
    const turn = this.last.then(() => this.take(read, signal));
    this.last = turn.catch(() => undefined);
    return turn;
  }

  private async take<T>(read: () => Promise<T>, signal: AbortSignal): Promise<T | null> {
    const began = Date.now();
    if (signal.aborted || began < this.restsUntil) return null;
    try {
      return await read();
    } finally {
      if (Date.now() - began > SLOW_MS) this.restsUntil = Date.now() + REST_MS;
    }
  }
}
