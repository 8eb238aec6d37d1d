/** One connection for all tabs of a browser. A browser has six for a server without HTTP/2, and each stream keeps one:
 * with a stream in every tab the sixth tab would load nothing. One tab reads and passes on; when it is closed, another
 * takes over. */

const NAME = "fairpool.changes";
/** The tab that reads answers at once; if none does, it hangs, and this one reads for itself. */
const ANSWER_MS = 3000;

interface Said {
  type: string;
  data?: string;
  lastEventId?: string;
}

export class TabSource {
  onopen: (() => void) | null = null;
  onerror: (() => void) | null = null;
  onevent: ((event: MessageEvent<string>) => void) | null = null;
  private own: EventSource | null = null;
  /** The connection of the tab that reads for this one. */
  private isOpen = false;
  private readonly channel: BroadcastChannel | null = null;
  private readonly over = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** `address` is asked for when this tab begins to read. `types` are those of events beside `message`. */
  constructor(
    private readonly address: () => string,
    private readonly types: readonly string[],
  ) {
    const locks = navigator.locks as LockManager | undefined; // only with TLS or on this machine
    if (locks === undefined || typeof BroadcastChannel === "undefined") {
      this.read();
      return;
    }
    this.channel = new BroadcastChannel(NAME);
    this.channel.onmessage = ({ data }: MessageEvent<Said>) => this.told(data);
    this.channel.postMessage({ type: "hello" } satisfies Said);
    this.timer = setTimeout(() => this.read(), ANSWER_MS);
    const { signal } = this.over;
    const held = () => {
      this.read();
      return new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    };
    locks.request(NAME, { signal }, held).catch(() => {}); // closed before it was its turn
  }

  get readyState(): number {
    return this.own?.readyState ?? EventSource.CONNECTING;
  }

  get isShared(): boolean {
    return this.channel !== null;
  }

  close(): void {
    clearTimeout(this.timer);
    this.over.abort();
    this.own?.close();
    this.channel?.close();
  }

  private read(): void {
    clearTimeout(this.timer);
    if (this.own !== null || this.over.signal.aborted) return;
    const own = new EventSource(this.address());
    this.own = own;
    const pass = (event: MessageEvent<string>) => {
      this.say({ type: event.type, data: event.data, lastEventId: event.lastEventId });
      this.onevent?.(event);
    };
    own.onopen = () => {
      this.say({ type: "open" });
      this.onopen?.();
    };
    own.onerror = () => {
      this.say({ type: "lost" });
      this.onerror?.();
    };
    own.onmessage = pass;
    for (const type of this.types) own.addEventListener(type, (event) => pass(event as MessageEvent<string>));
  }

  private opened(): void {
    if (this.isOpen) return;
    this.isOpen = true;
    this.onopen?.();
  }

  private say(said: Said): void {
    if (!this.over.signal.aborted) this.channel?.postMessage(said);
  }

  private told({ type, data = "", lastEventId = "" }: Said): void {
    if (this.over.signal.aborted) return;
    if (this.own !== null) {
      if (type === "hello") this.say({ type: this.own.readyState === EventSource.OPEN ? "open" : "busy" });
      return; // what it reads itself is enough
    }
    if (type === "hello") return;
    clearTimeout(this.timer);
    if (type === "open")
      this.opened(); // it may be the answer to another tab
    else if (type === "lost") this.onerror?.();
    else if (type !== "busy") this.onevent?.(new MessageEvent(type, { data, lastEventId }));
  }
}
