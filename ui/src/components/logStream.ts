/** Reads a log as it comes, in pieces that say where reading goes on after a broken connection. */

/** Splits the stream into pieces: a line `OFFSET LENGTH`, LENGTH bytes, and `end` after the last one. */
export class PieceReader {
  private buffer = new Uint8Array(0);
  private left = 0;
  offset = 0;
  /** Bytes of a piece that is not complete yet. */
  sinceOffset = 0;
  isOver = false;
  private next = 0;

  /** The bytes of the log among those that have come. */
  read(bytes: Uint8Array): Uint8Array[] {
    let data = bytes;
    if (this.buffer.length > 0) {
      data = new Uint8Array(this.buffer.length + bytes.length);
      data.set(this.buffer);
      data.set(bytes, this.buffer.length);
      this.buffer = new Uint8Array(0);
    }
    const found: Uint8Array[] = [];
    let at = 0;
    while (at < data.length && !this.isOver) {
      if (this.left > 0) {
        const piece = data.subarray(at, at + this.left);
        found.push(piece);
        at += piece.length;
        this.left -= piece.length;
        this.sinceOffset += piece.length;
        if (this.left === 0) this.ended();
        continue;
      }
      const end = data.indexOf(10, at);
      if (end < 0) {
        this.buffer = data.slice(at);
        break;
      }
      this.head(new TextDecoder().decode(data.subarray(at, end)));
      at = end + 1;
    }
    return found;
  }

  private head(line: string): void {
    if (line === "end") {
      this.isOver = true;
      return;
    }
    const [offset, length] = line.split(" ").map(Number);
    this.next = offset ?? this.offset;
    this.left = length ?? 0;
    if (this.left === 0) this.ended();
  }

  private ended(): void {
    this.offset = this.next;
    this.sinceOffset = 0;
  }
}

export interface LogRequest {
  workload: string;
  pod: string | null;
  timestamps: boolean;
  follow: boolean;
}

export interface LogEars {
  text: (words: string) => void;
  over: () => void;
  failed: (error: unknown, isFirst: boolean) => void;
}

/** The page draws and answers in between. */
const BREATH_MS = 12;
const AGAIN_MS = [500, 1000, 2000, 4000, 8000];

export function logPath({ workload, pod, timestamps, follow }: LogRequest, more: Record<string, string> = {}): string {
  const query = new URLSearchParams(more);
  if (pod !== null) query.set("pod", pod);
  if (timestamps) query.set("timestamps", "true");
  if (follow) query.set("follow", "true");
  return `/api/v1/workloads/${workload}/logs?${query}`;
}

/** Reads until the log is over or `signal` says stop; a broken connection is taken up where it broke. */
export async function readLog(request: LogRequest, ears: LogEars, signal: AbortSignal): Promise<void> {
  const decoder = new TextDecoder("utf-8"); // what is no UTF-8 becomes U+FFFD
  let offset = 0;
  let skip = 0; // bytes after `offset` that are shown already
  let tries = 0;
  for (;;) {
    const pieces = new PieceReader();
    pieces.offset = offset;
    let ahead = skip;
    try {
      const more = { pieces: "true", ...(offset > 0 ? { offset: String(offset) } : {}) };
      const answer = await fetch(logPath(request, more), { signal });
      if (!answer.ok || answer.body === null) throw await refusalOf(answer);
      const reader = answer.body.getReader();
      let breathed = performance.now();
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        tries = 0;
        for (const each of pieces.read(part.value)) {
          const fresh = each.subarray(Math.min(ahead, each.length));
          ahead -= each.length - fresh.length;
          if (fresh.length > 0) ears.text(decoder.decode(fresh, { stream: true }));
        }
        if (performance.now() - breathed > BREATH_MS) {
          await new Promise((resolve) => setTimeout(resolve, 0)); // what is buffered would else come in one go
          breathed = performance.now();
        }
        offset = pieces.offset;
        skip = Math.max(pieces.sinceOffset, ahead > 0 ? skip : 0);
      }
      if (pieces.isOver || !request.follow) return ears.over();
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof LogRefused || tries >= AGAIN_MS.length) return ears.failed(error, offset === 0);
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)]));
    tries += 1;
    if (signal.aborted) return;
  }
}

/** The server said no; trying again would not help. */
export class LogRefused extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

async function refusalOf(answer: Response): Promise<Error> {
  const said = (await answer.json().catch(() => ({}))) as {
    problems?: { what: string; fix?: string }[];
    detail?: string;
  };
  const message = said.problems?.[0]?.what ?? said.detail ?? `HTTP ${answer.status}`;
  return answer.status >= 500 ? new Error(message) : new LogRefused(message, answer.status);
}
