import { Loader } from "@mantine/core";
import { useDebouncedValue, useLocalStorage } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { Fragment, type KeyboardEvent, useEffect, useRef, useState } from "react";
import { text } from "@/text/palette";
import classes from "./Palette.module.css";
import { copyCommand, type Entry, recentIcon, useEntries } from "./paletteEntries";

const DEBOUNCE_MS = 120;
const RECENT_MAX = 6;

interface Recent {
  id: string;
  title: string;
  detail?: string | undefined;
  path: string;
  search?: Record<string, unknown> | undefined;
}

/** What was opened last from here, on this machine. */
function useRecent(): [Entry[], (entry: Entry) => void] {
  const [recent, setRecent] = useLocalStorage<Recent[]>({ key: "fairpool.palette.recent", defaultValue: [] });
  const navigate = useNavigate();
  const entries = recent.map(
    (each): Entry => ({
      id: each.id,
      group: "recent",
      icon: recentIcon(each.id),
      title: each.title,
      run: () => void navigate({ to: each.path as never, search: (each.search ?? {}) as never }),
      to: { path: each.path, ...(each.search === undefined ? {} : { search: each.search }) },
    }),
  );
  const remember = (entry: Entry) => {
    if (entry.to === undefined) return;
    const kept: Recent = { id: entry.id, title: entry.title, path: entry.to.path, search: entry.to.search };
    setRecent((before) => [kept, ...before.filter((each) => each.id !== entry.id)].slice(0, RECENT_MAX));
  };
  return [entries, remember];
}

/** The field and its results: a combobox with a list. */
export function PaletteSearch({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [settled] = useDebouncedValue(typed, DEBOUNCE_MS);
  const [cursor, setCursor] = useState(0);
  const [isWanted, setWanted] = useState(false);
  const [recent, remember] = useRecent();
  const found = useEntries(settled);
  const isEmpty = settled.trim() === "";
  const recentIds = new Set(recent.map((each) => each.id));
  const entries = isEmpty
    ? [...recent, ...found.entries.filter((each) => !recentIds.has(each.id))]
    : recentFirst(found.entries, recentIds);
  const at = Math.min(cursor, Math.max(0, entries.length - 1));
  const active = entries[at];

  const choose = (entry: Entry | undefined) => {
    if (entry === undefined || entry.isDisabled) return;
    remember(entry);
    onClose();
    entry.run();
  };
  // Enter waits for what belongs to the words that are typed: never an action on what an earlier word had found.
  const isSettled = settled === typed && !found.isSearching;
  const chosen = useRef(choose);
  chosen.current = choose;
  useEffect(() => {
    if (!isWanted || !isSettled) return;
    setWanted(false);
    chosen.current(active);
  }, [isWanted, isSettled, active]);
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step !== undefined && entries.length > 0) {
      event.preventDefault();
      const next = at + step;
      setCursor(Math.abs(step) === 1 ? (next + entries.length) % entries.length : clamp(next, entries.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (!(event.ctrlKey || event.metaKey)) setWanted(true);
      else if (active?.command !== undefined) {
        copyCommand(active.command);
        onClose();
      }
    }
  };
  return (
    <>
      <div className={classes.head}>
        <IconSearch size={18} aria-hidden="true" />
        <input
          className={classes.input}
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-results"
          aria-autocomplete="list"
          aria-activedescendant={active === undefined ? undefined : optionId(at)}
          aria-label={text.field}
          placeholder={text.placeholder}
          data-autofocus
          autoComplete="off"
          spellCheck={false}
          value={typed}
          onChange={(event) => {
            setTyped(event.currentTarget.value);
            setCursor(0);
            setWanted(false);
          }}
          onKeyDown={onKey}
        />
        {found.isSearching && <Loader size={14} aria-label={text.searching} />}
      </div>
      <Results entries={entries} at={at} onHover={setCursor} onChoose={choose} />
      {entries.length === 0 && !found.isSearching && settled === typed && (
        <p className={classes.nothing} role="status">
          {found.error ? text.failed : text.nothing(typed.trim())}
        </p>
      )}
      <footer className={classes.foot}>
        {active?.command !== undefined && <code className={classes.command}>{active.command}</code>}
        {text.hints.map(([keys, what]) => (
          <span key={keys}>
            <kbd>{keys}</kbd>
            {what}
          </span>
        ))}
      </footer>
    </>
  );
}

const optionId = (at: number): string => `palette-option-${at}`;
const clamp = (at: number, length: number): number => Math.max(0, Math.min(length - 1, at));

/** Within its group, what was opened before comes first. */
function recentFirst(entries: readonly Entry[], recent: ReadonlySet<string>): Entry[] {
  const groups = [...new Set(entries.map((each) => each.group))];
  return groups.flatMap((group) => {
    const members = entries.filter((each) => each.group === group);
    return [...members.filter((each) => recent.has(each.id)), ...members.filter((each) => !recent.has(each.id))];
  });
}

interface ResultProps {
  entries: readonly Entry[];
  at: number;
  onHover: (at: number) => void;
  onChoose: (entry: Entry) => void;
}

function Results({ entries, at, onHover, onChoose }: ResultProps) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    list.current?.querySelector(`#${optionId(at)}`)?.scrollIntoView({ block: "nearest" });
  }, [at]);
  return (
    <div
      ref={list}
      id="palette-results"
      role="listbox"
      aria-label={text.results}
      className={classes.list}
      tabIndex={-1}
    >
      {entries.map((each, number) => (
        <Fragment key={`${each.group}-${each.id}`}>
          {each.group !== entries[number - 1]?.group && (
            <div className={classes.group} role="presentation">
              {text.groups[each.group]}
            </div>
          )}
          {/* biome-ignore lint/a11y/useKeyWithClickEvents: keys are handled by the field, which keeps the focus */}
          <div
            id={optionId(number)}
            role="option"
            tabIndex={-1}
            aria-selected={number === at}
            aria-disabled={each.isDisabled ?? false}
            className={classes.entry}
            data-long={each.isLong || undefined}
            onMouseMove={() => number !== at && onHover(number)}
            onClick={() => onChoose(each)}
          >
            <span className={classes.icon}>{each.icon}</span>
            <span className={classes.title} title={each.title}>
              {each.title}
            </span>
            {each.detail !== undefined && (
              <span className={classes.detail} title={each.detail}>
                {each.detail}
              </span>
            )}
          </div>
        </Fragment>
      ))}
    </div>
  );
}
