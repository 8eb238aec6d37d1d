/** A shell in a pod over a WebSocket: the first byte of each message is its channel (see the guide of the API). */

export const CHANNEL = { input: 0, output: 1, errors: 2, ended: 3, size: 4, close: 255 } as const;

export interface TerminalEars {
  opened: () => void;
  output: (bytes: Uint8Array) => void;
  ended: (exitCode: number | null, words: string) => void;
  /** The connection is gone without an end; `wasOpen`: it had been there. */
  lost: (wasOpen: boolean) => void;
}

export function frame(channel: number, data: Uint8Array | string): Uint8Array<ArrayBuffer> {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  const message = new Uint8Array(bytes.length + 1);
  message[0] = channel;
  message.set(bytes, 1);
  return message;
}

/** What the server says when the process has ended. */
export function endOf(data: Uint8Array): { exitCode: number | null; words: string } {
  try {
    const said = JSON.parse(new TextDecoder().decode(data)) as { exitCode?: unknown; words?: unknown };
    return { exitCode: typeof said.exitCode === "number" ? said.exitCode : null, words: String(said.words ?? "") };
  } catch {
    return { exitCode: null, words: "" };
  }
}

export function execPath(workload: string, pod: string | null, command: readonly string[]): string {
  const query = new URLSearchParams();
  for (const each of command) query.append("command", each);
  query.set("tty", "true");
  if (pod !== null) query.set("pod", pod);
  return `/api/v1/workloads/${encodeURIComponent(workload)}/exec?${query}`;
}

export class TerminalSession {
  private readonly socket: WebSocket;
  private isOver = false;
  private wasOpen = false;
  private size = "";

  constructor(path: string, ears: TerminalEars) {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    this.socket = new WebSocket(`${scheme}//${location.host}${path}`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => {
      this.wasOpen = true;
      if (this.size !== "") this.socket.send(frame(CHANNEL.size, this.size));
      ears.opened();
    };
    this.socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
      const bytes = new Uint8Array(data);
      const rest = bytes.subarray(1);
      if (bytes[0] === CHANNEL.output || bytes[0] === CHANNEL.errors) ears.output(rest);
      else if (bytes[0] === CHANNEL.ended && !this.isOver) {
        this.isOver = true;
        const { exitCode, words } = endOf(rest);
        ears.ended(exitCode, words);
      }
    };
    this.socket.onclose = () => {
      if (!this.isOver) ears.lost(this.wasOpen);
      this.isOver = true;
    };
  }

  type(words: string): void {
    this.send(frame(CHANNEL.input, words));
  }

  bytes(binary: string): void {
    this.send(
      frame(
        CHANNEL.input,
        Uint8Array.from(binary, (each) => each.charCodeAt(0)),
      ),
    );
  }

  resize(columns: number, rows: number): void {
    this.size = JSON.stringify({ columns, rows });
    this.send(frame(CHANNEL.size, this.size));
  }

  close(): void {
    this.isOver = true;
    this.socket.close();
  }

  private send(message: Uint8Array<ArrayBuffer>): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(message);
  }
}
