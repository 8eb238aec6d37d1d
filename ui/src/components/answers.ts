/** Answers to the user's own actions: what was done, what was refused, and the way back. */
import { notifications } from "@mantine/notifications";
import { createElement, type ReactNode } from "react";
import { ApiError } from "@/api/client";
import { text } from "@/text/frame";
import { UndoButton } from "./UndoButton";

export const UNDO_MS = 8000;

export function done(message: ReactNode): void {
  notifications.show({ message, autoClose: 4000, withBorder: true });
}

/** What the server refused, with all its problems and what to do about each. */
export function refused(error: unknown, title?: string): void {
  const problems = error instanceof ApiError && error.problems.length > 0 ? error.problems : null;
  const message = problems
    ? problems.map((each) => (each.fix ? `${each.what} – ${each.fix}` : each.what)).join("\n")
    : error instanceof Error
      ? error.message
      : String(error);
  notifications.show({
    ...(title === undefined ? {} : { title }),
    message,
    color: "red",
    autoClose: 10_000,
    withBorder: true,
    role: "alert",
    style: { whiteSpace: "pre-line" },
  });
}

/** What waits for its eight seconds. */
const pending = new Set<() => Promise<void>>();

/** Do now what waits to be done: the session is about to end, and after it nothing can be. */
export async function finishPending(): Promise<void> {
  await Promise.all([...pending].map((finish) => finish()));
}

/** Do something after eight seconds, unless the user takes it back. It is done at once if the page is left. */
export function withUndo(message: string, act: () => Promise<unknown>, onUndo?: () => void): void {
  const id = crypto.randomUUID();
  const end = (): boolean => {
    clearTimeout(timer);
    removeEventListener("pagehide", finish);
    notifications.hide(id);
    return pending.delete(finish);
  };
  const finish = async () => {
    if (!end()) return; // once only
    await act().catch((error: unknown) => {
      onUndo?.();
      refused(error);
    });
  };
  const takeBack = () => {
    if (end()) onUndo?.();
  };
  pending.add(finish);
  const timer = setTimeout(finish, UNDO_MS);
  addEventListener("pagehide", finish);
  notifications.show({
    id,
    message: createElement(UndoButton, { message, onUndo: takeBack, label: text.shared.undo }),
    autoClose: false,
    withCloseButton: false,
    withBorder: true,
  });
}
