/** The screen of a terminal. Loaded when the first one is opened. */
import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef } from "react";
import { useScheme } from "@/theme/scheme";
import { TerminalSession } from "./terminalSession";

export type TerminalState =
  | { kind: "connecting" }
  | { kind: "connected" }
  | { kind: "ended"; exitCode: number | null; words: string }
  | { kind: "lost"; wasOpen: boolean };

interface Props {
  path: string;
  label: string;
  onState: (state: TerminalState) => void;
}

/** The colours of the page, as the terminal draws them itself. */
function coloursOf(element: Element): {
  background: string;
  foreground: string;
  cursor: string;
  selectionBackground: string;
} {
  const style = getComputedStyle(element);
  const token = (name: string) => style.getPropertyValue(name).trim();
  return {
    background: token("--surface"),
    foreground: token("--text"),
    cursor: token("--accent"),
    selectionBackground: token("--accent-tint"),
  };
}

export function TerminalScreen({ path, label, onState }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const terminal = useRef<Terminal | null>(null);
  const scheme = useScheme();
  const told = useRef(onState);
  told.current = onState;

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const screen = new Terminal({
      fontFamily: '"JetBrains Mono Variable", ui-monospace, monospace',
      fontSize: 13,
      lineHeight: 1.2,
      cursorBlink: false,
      scrollback: 10_000,
      screenReaderMode: false,
      theme: coloursOf(element),
    });
    terminal.current = screen;
    const fit = new FitAddon();
    screen.loadAddon(fit);
    screen.open(element);
    told.current({ kind: "connecting" });
    const session = new TerminalSession(path, {
      opened: () => {
        told.current({ kind: "connected" });
        screen.focus();
      },
      output: (bytes) => screen.write(bytes),
      ended: (exitCode, words) => told.current({ kind: "ended", exitCode, words }),
      lost: (wasOpen) => told.current({ kind: "lost", wasOpen }),
    });
    screen.onData((words) => session.type(words));
    screen.onBinary((bytes) => session.bytes(bytes));
    screen.onResize(({ cols, rows }) => session.resize(cols, rows));
    screen.attachCustomKeyEventHandler((event) => copyOrPass(event, screen));
    const fitNow = () => {
      if (element.clientHeight > 20 && element.clientWidth > 40) fit.fit();
    };
    fitNow();
    session.resize(screen.cols, screen.rows);
    const observer = new ResizeObserver(fitNow);
    observer.observe(element);
    return () => {
      observer.disconnect();
      session.close();
      screen.dispose();
      terminal.current = null;
    };
  }, [path]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the scheme decides the colours
  useEffect(() => {
    if (terminal.current && box.current) terminal.current.options.theme = coloursOf(box.current);
  }, [scheme]);

  return <section ref={box} style={{ height: "100%", width: "100%" }} aria-label={label} />;
}

/** Ctrl C copies if something is selected; Ctrl Shift C and V are the browser's. False: not for the shell. */
function copyOrPass(event: KeyboardEvent, screen: Terminal): boolean {
  if (event.type !== "keydown" || !(event.ctrlKey || event.metaKey)) return true;
  const key = event.key.toLowerCase();
  if (key === "c" && screen.hasSelection()) {
    void navigator.clipboard?.writeText(screen.getSelection());
    screen.clearSelection();
    event.preventDefault();
    return false;
  }
  return !(event.shiftKey && key === "v"); // the browser pastes; the terminal hears it as input
}
