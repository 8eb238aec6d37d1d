/** A log of any length: only the lines on the screen exist as elements. */
import { useElementSize } from "@mantine/hooks";
import clsx from "clsx";
import {
  type ReactNode,
  type RefObject,
  useImperativeHandle,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  useSyncExternalStore,
} from "react";
import { text } from "@/text/workload";
import classes from "./Log.module.css";
import { HEIGHT_MAX, LINE_PX, RowIndex, squeezed, stretched } from "./logLayout";
import { columnsOf, plainLine, spansOf, stamped } from "./logLines";
import type { LogStore } from "./logStore";

export interface LogHandle {
  /** By its number from the beginning, 0 the first. */
  show: (line: number) => void;
}

interface Props {
  store: LogStore;
  wrap: boolean;
  times: boolean;
  follow: boolean;
  onFollow: (follow: boolean) => void;
  words: string;
  /** The line that is marked, from the address or the search. */
  marked: number | null;
  onMark: (line: number) => void;
  handle: RefObject<LogHandle | null>;
  label: string;
}

const CHAR_PX = 7.225;
const PADDING_PX = 12;

export function LogView({ store, wrap, times, follow, onFollow, words, marked, onMark, handle, label }: Props) {
  useSyncExternalStore(store.subscribe, () => store.version);
  const { ref: sizeRef, width, height } = useElementSize();
  const box = useRef<HTMLDivElement>(null);
  const [scrollTop, setScrollTop] = useState(0);
  const gutter =
    Math.max(4, String(store.length + store.dropped).length) * CHAR_PX + PADDING_PX + (times ? 13 * CHAR_PX : 0);
  const columns = Math.max(20, Math.floor((width - gutter - 2 * PADDING_PX) / CHAR_PX));
  // A new index measures all lines anew: when the width, the log or what was dropped changes.
  const begun = `${store.clears} ${store.dropped}`;
  // biome-ignore lint/correctness/useExhaustiveDependencies: lines have other numbers after some were dropped
  const index = useMemo(
    () => new RowIndex(wrap ? (line) => rowsOf(store.line(line), times, columns) : null),
    [wrap, columns, times, store, begun],
  );
  index.grow(store.length);
  const total = index.total * LINE_PX;
  const top = stretched(scrollTop, total, height);
  useStuckToEnd(box, follow, store.version, total);
  useImperativeHandle(handle, () => ({
    show: (line) => {
      const at = Math.max(0, index.rowOf(line - store.dropped) * LINE_PX - height / 3);
      box.current?.scrollTo({ top: squeezed(at, total, height) });
    },
  }));
  const first = index.at(top / LINE_PX);
  const shown: ReactNode[] = [];
  for (let line = first.line, y = first.row * LINE_PX; line < store.length && y < top + height + LINE_PX; line += 1) {
    const number = line + store.dropped;
    const raw = store.line(line);
    const rows = wrap ? rowsOf(raw, times, columns) : 1;
    shown.push(
      <Line
        key={number}
        raw={raw}
        number={number}
        y={y - top}
        rows={rows}
        times={times}
        gutter={gutter}
        words={words}
        isMarked={number === marked}
        onMark={onMark}
      />,
    );
    y += rows * LINE_PX;
  }
  const scrolled = (element: HTMLDivElement) => {
    setScrollTop(element.scrollTop);
    const isAtEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - 4;
    if (!isAtEnd && follow && element.scrollTop < lastTop.current) onFollow(false);
    lastTop.current = element.scrollTop;
  };
  const lastTop = useRef(0);
  return (
    <div ref={sizeRef} className={classes.frame}>
      <div
        ref={box}
        className={clsx(classes.box, wrap && classes.wraps)}
        onScroll={(event) => scrolled(event.currentTarget)}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={label}
      >
        <div style={{ height: Math.min(total, HEIGHT_MAX), position: "relative" }}>
          <div className={classes.window} style={{ height, top: scrollTop }}>
            {shown}
          </div>
        </div>
      </div>
    </div>
  );
}

/** Keeps the end in view while following. */
function useStuckToEnd(box: RefObject<HTMLDivElement | null>, follow: boolean, version: number, total: number): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: whatever is new is to be seen
  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [box, follow, version, total]);
}

function textOf(raw: string, times: boolean): string {
  return plainLine(times ? stamped(raw)[1] : raw);
}

/** Rows of the screen that a line takes when it is wrapped. Most lines are short, and that is seen at once. */
function rowsOf(raw: string, times: boolean, columns: number): number {
  if (raw.length * 2 <= columns && !raw.includes("\t")) return 1;
  return Math.max(1, Math.ceil(columnsOf(textOf(raw, times)) / columns));
}

interface LineProps {
  raw: string;
  number: number;
  y: number;
  rows: number;
  times: boolean;
  gutter: number;
  words: string;
  isMarked: boolean;
  onMark: (line: number) => void;
}

function Line({ raw, number, y, rows, times, gutter, words, isMarked, onMark }: LineProps) {
  const [at, rest] = times ? stamped(raw) : [null, raw];
  const spans = spansOf(rest);
  return (
    <div
      className={clsx(classes.line, isMarked && classes.marked)}
      style={{ transform: `translateY(${y}px)`, height: rows * LINE_PX }}
    >
      <a
        href={`#L${number + 1}`}
        className={classes.number}
        style={{ width: gutter }}
        aria-label={text.log.copyLink(number + 1)}
        onClick={(event) => {
          event.preventDefault();
          onMark(number);
        }}
      >
        {times && <span className={classes.time}>{at === null ? "" : clockOf(at)}</span>}
        {number + 1}
      </a>
      <span className={classes.words}>
        {spans.map((span, each) => (
          <span key={each} className={clsx(span.colour !== null && classes[span.colour], span.bold && classes.bold)}>
            <Found words={span.words} wanted={words} most={Math.ceil(MARKS_MAX / spans.length)} />
          </span>
        ))}
      </span>
    </div>
  );
}

/** The time of day in the reader's zone, with milliseconds. */
function clockOf(iso: string): string {
  const at = new Date(iso);
  const pad = (value: number, length = 2) => String(value).padStart(length, "0");
  return `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
}

/** Marked in one line; a search for `e` finds it anyway. */
const MARKS_MAX = 256;

function Found({ words, wanted, most }: { words: string; wanted: string; most: number }) {
  if (wanted === "") return <>{words}</>;
  const parts: ReactNode[] = [];
  const lower = words.toLowerCase();
  const search = wanted.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(search); at >= 0 && parts.length < 2 * most; at = lower.indexOf(search, from)) {
    parts.push(words.slice(from, at), <mark key={at}>{words.slice(at, at + search.length)}</mark>);
    from = at + search.length;
  }
  parts.push(words.slice(from));
  return <>{parts}</>;
}
