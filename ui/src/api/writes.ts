/** Whether changes may be sent: they are held while the page does not know the present state. */
import { useSyncExternalStore } from "react";
import { text } from "@/text/frame";

let isHeld = false;
const listeners = new Set<() => void>();

export const writes = {
  get held(): boolean {
    return isHeld;
  },
  hold(held: boolean): void {
    if (held === isHeld) return;
    isHeld = held;
    for (const each of listeners) each();
  },
  /** Throws while changes are held. */
  check(): void {
    if (isHeld) throw new WritesHeld();
  },
};

export class WritesHeld extends Error {
  constructor() {
    super(text.writesHeld);
    this.name = "WritesHeld";
  }
}

/** For buttons that change something. */
export function useWritesHeld(): boolean {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => isHeld,
  );
}
