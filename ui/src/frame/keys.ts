/** Shortcuts of the whole page. */

/** Whether a key is meant for a field or a terminal, not for a shortcut. */
export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return (
    target.isContentEditable ||
    target.closest("input, textarea, select, [role=textbox], .xterm, .cm-editor, [role=dialog]") !== null
  );
}

export interface Shortcuts {
  go: (path: string) => void;
  help: () => void;
  toggleRail: () => void;
}

const PLACES: Record<string, string> = {
  o: "/",
  m: "/map",
  w: "/workloads",
  p: "/projects",
  n: "/nodes",
  a: "/analytics",
};
/** How long after g the second key may come. */
const CHORD_MS = 1200;

export function listenForShortcuts(shortcuts: Shortcuts): () => void {
  let goneAt = 0;
  const pressed = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const isSecond = Date.now() - goneAt < CHORD_MS;
    goneAt = 0;
    if (isSecond) {
      const place = PLACES[event.key];
      if (place === undefined) return;
      event.stopImmediatePropagation();
      shortcuts.go(place);
    } else if (event.key === "g") goneAt = Date.now();
    else if (event.key === "c") shortcuts.go("/submit");
    else if (event.key === "?") shortcuts.help();
    else if (event.key === "[") shortcuts.toggleRail();
  };
  addEventListener("keydown", pressed, { capture: true });
  return () => removeEventListener("keydown", pressed, { capture: true });
}
