import { type RefObject, useEffect, useRef } from "react";

/** For a row of tabs or links that scrolls on narrow screens: the current one is brought into view. */
export function useCurrentInView<Element extends HTMLElement>(current: string | undefined): RefObject<Element | null> {
  const row = useRef<Element>(null);
  useEffect(() => {
    if (current === undefined) return;
    const found = row.current?.querySelector<HTMLElement>("[aria-selected=true], [aria-current=page]");
    if (found && row.current) row.current.scrollLeft = found.offsetLeft - row.current.clientWidth / 3;
  }, [current]);
  return row;
}
