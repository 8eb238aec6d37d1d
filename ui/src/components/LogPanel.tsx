import { ActionIcon, Button, Select, Switch, TextInput, Tooltip } from "@mantine/core";
import { useDebouncedValue, useLocalStorage } from "@mantine/hooks";
import { IconArrowDown, IconArrowUp, IconDownload, IconRefresh, IconSearch } from "@tabler/icons-react";
import { useCallback, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { text } from "@/text/workload";
import classes from "./Log.module.css";
import { type LogHandle, LogView } from "./LogView";
import { LogSearch } from "./logSearch";
import { LogStore } from "./logStore";
import { LogRefused, logPath, readLog } from "./logStream";

interface Choice {
  value: string;
  label: string;
  isOver: boolean;
}

interface Props {
  workload: string;
  name: string;
  choices: Choice[];
  firstPod?: string;
}

type State = "reading" | "over" | { error: string };
const words = text.log;

/** Reads the log of a pod into a store, and goes on as long as it is shown. */
function useLog(workload: string, pod: string, timestamps: boolean): [LogStore, State, () => void] {
  const [store] = useState(() => new LogStore());
  const [state, setState] = useState<State>("reading");
  const [run, setRun] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `run` starts it again
  useEffect(() => {
    const stop = new AbortController();
    store.clear();
    setState("reading");
    void readLog(
      { workload, pod, timestamps, follow: true },
      {
        text: (piece) => store.push(piece),
        over: () => setState("over"),
        failed: (error) =>
          setState({ error: error instanceof LogRefused || error instanceof Error ? error.message : String(error) }),
      },
      stop.signal,
    );
    return () => stop.abort();
  }, [store, workload, pod, timestamps, run]);
  return [store, state, () => setRun((now) => now + 1)];
}

/** Lines that contain the words, and which of them is shown. */
function useLogSearch(store: LogStore, wanted: string, onShow: (line: number) => void) {
  const [, redraw] = useState(0);
  const [chosen, setAt] = useState(0);
  const search = useRef<LogSearch | null>(null);
  useEffect(() => {
    setAt(0);
    let hasShown = false;
    const made = new LogSearch(store, wanted, () => {
      redraw((now) => now + 1);
      if (!hasShown && made.matches.length > 0) {
        hasShown = true;
        onShow(made.matches[0]!);
      }
    });
    search.current = made;
    made.run();
    const stop = store.subscribe(() => made.run());
    return () => {
      stop();
      made.stop();
    };
  }, [store, wanted, onShow]);
  const matches = search.current?.matches ?? [];
  const at = Math.max(0, Math.min(chosen, matches.length - 1)); // another log may have fewer
  const step = (by: number) => {
    if (matches.length === 0) return;
    const next = (at + by + matches.length) % matches.length;
    setAt(next);
    onShow(matches[next]!);
  };
  return {
    count: matches.length,
    isMore: search.current !== null && (search.current.isMore || !search.current.isDone),
    at,
    step,
  };
}

export function LogPanel({ workload, name, choices, firstPod }: Props) {
  const [chosen, setChosen] = useState<string | null>(firstPod ?? null);
  const pod = choices.find((each) => each.value === chosen || each.label === chosen)?.value ?? choices[0]!.value;
  const [wrap, setWrap] = useLocalStorage({ key: "fairpool.log.wrap", defaultValue: false });
  const [times, setTimes] = useLocalStorage({ key: "fairpool.log.times", defaultValue: false });
  const linked = useRef(lineInAddress());
  const [follow, setFollow] = useState(linked.current === null);
  const [marked, setMarked] = useState<number | null>(linked.current);
  const [typed, setTyped] = useState("");
  const [wanted] = useDebouncedValue(typed, 200);
  const handle = useRef<LogHandle>(null);
  const [store, state, again] = useLog(workload, pod, times);
  const count = useSyncExternalStore(store.subscribe, () => store.length);
  const show = useCallback((line: number) => {
    setFollow(false);
    setMarked(line);
    requestAnimationFrame(() => handle.current?.show(line));
  }, []);
  const search = useLogSearch(store, wanted, show);
  useEffect(() => {
    if (linked.current === null || count + store.dropped <= linked.current) return;
    show(linked.current);
    linked.current = null;
  }, [count, store, show]);
  useEffect(() => {
    const moved = () => {
      const line = lineInAddress();
      if (line !== null) show(line);
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, [show]);
  const mark = (line: number) => {
    setMarked(line);
    history.replaceState(history.state, "", `#L${line + 1}`);
  };
  return (
    <section className={classes.panel} aria-label={words.title}>
      <div className={classes.tools}>
        <Select
          size="xs"
          w={220}
          aria-label={words.pod}
          data={choices.map(({ value, label }) => ({ value, label }))}
          value={pod}
          onChange={(value) => value && setChosen(value)}
          allowDeselect={false}
        />
        <TextInput
          size="xs"
          w={200}
          type="search"
          leftSection={<IconSearch size={14} />}
          placeholder={words.search}
          aria-label={words.search}
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") search.step(event.shiftKey ? -1 : 1);
          }}
        />
        {wanted !== "" && (
          <>
            <span className={classes.note} role="status">
              {search.count === 0 ? words.noMatch : words.matches(search.at + 1, search.count, search.isMore)}
            </span>
            <Step label={words.previous} icon={<IconArrowUp size={14} />} onClick={() => search.step(-1)} />
            <Step label={words.next} icon={<IconArrowDown size={14} />} onClick={() => search.step(1)} />
          </>
        )}
        <span className={classes.space} />
        <span className={classes.note} data-log-lines={count + store.dropped}>
          {words.lines((count + store.dropped).toLocaleString("en-US"))}
          {state === "over" && ` · ${words.ended}`}
        </span>
        <Switch
          size="xs"
          label={words.follow}
          checked={follow}
          onChange={(event) => setFollow(event.currentTarget.checked)}
        />
        <Switch
          size="xs"
          label={words.wrap}
          checked={wrap}
          onChange={(event) => setWrap(event.currentTarget.checked)}
        />
        <Switch
          size="xs"
          label={words.times}
          checked={times}
          onChange={(event) => setTimes(event.currentTarget.checked)}
        />
        <Button
          size="xs"
          leftSection={<IconDownload size={14} />}
          component="a"
          href={logPath({ workload, pod, timestamps: times, follow: false })}
          download={`${name}.log`}
        >
          {words.download}
        </Button>
      </div>
      {store.dropped > 0 && <p className={classes.cut}>{words.cut(store.dropped.toLocaleString("en-US"))}</p>}
      {typeof state === "object" && (
        <p className={classes.cut} role="alert">
          {`${state.error} `}
          <Button size="compact-xs" leftSection={<IconRefresh size={12} />} onClick={again}>
            {words.again}
          </Button>
        </p>
      )}
      {count === 0 && typeof state !== "object" && (
        <p className={classes.tools}>{state === "over" ? words.none : `${words.none} …`}</p>
      )}
      <LogView
        store={store}
        wrap={wrap}
        times={times}
        follow={follow}
        onFollow={setFollow}
        words={wanted}
        marked={marked}
        onMark={mark}
        handle={handle}
        label={words.title}
      />
    </section>
  );
}

function Step({ label, icon, onClick }: { label: string; icon: React.ReactNode; onClick: () => void }) {
  return (
    <Tooltip label={label}>
      <ActionIcon size="sm" onClick={onClick} aria-label={label}>
        {icon}
      </ActionIcon>
    </Tooltip>
  );
}

/** `#L123` is the line with the index 122. */
function lineInAddress(): number | null {
  const found = /^#L(\d{1,9})$/.exec(location.hash);
  return found === null ? null : Number(found[1]) - 1;
}
