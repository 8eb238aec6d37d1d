import { type RefObject, useEffect, useRef, useState } from "react";
import { isTyping } from "@/frame/keys";

interface Target<Row> {
  idOf: (row: Row) => string;
  onOpen?: (row: Row) => void;
  selected?: ReadonlySet<string>;
  onSelect?: (ids: Set<string>) => void;
  onKey?: (key: string, row: Row) => void;
}

/** Keys of a list: j and k move, Enter opens, x selects, / filters. The number of the current row; -1: none. */
export function useRowKeys<Row>(
  root: RefObject<HTMLElement | null>,
  rows: Row[] | undefined,
  target: Target<Row>,
): number {
  const [cursor, setCursor] = useState(-1);
  const latest = useRef({ rows, target, cursor });
  latest.current = { rows, target, cursor };
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const { rows: all = [], target: to, cursor: at } = latest.current;
      const row = all[at];
      if (event.key === "/") {
        event.preventDefault();
        root.current?.querySelector<HTMLInputElement>("input[type=search]")?.focus();
      } else if (event.key === "j" || event.key === "k") {
        const next = Math.min(all.length - 1, Math.max(0, at + (event.key === "j" ? 1 : -1)));
        setCursor(next);
        root.current?.querySelectorAll("[data-row]")[next]?.scrollIntoView({ block: "nearest" });
      } else if (row !== undefined && event.key === "Enter" && !isButton(event.target)) to.onOpen?.(row);
      else if (row !== undefined && event.key === "x" && to.onSelect) {
        const next = new Set(to.selected);
        const id = to.idOf(row);
        if (!next.delete(id)) next.add(id);
        to.onSelect(next);
      } else if (row !== undefined) to.onKey?.(event.key, row);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [root]);
  return cursor;
}

function isButton(target: EventTarget | null): boolean {
  return target instanceof Element && target.closest("a, button") !== null;
}
