import { ActionIcon, Button, Select } from "@mantine/core";
import { IconChevronDown, IconChevronUp, IconRefresh, IconX } from "@tabler/icons-react";
import clsx from "clsx";
import { lazy, Suspense, useState } from "react";
import { useMay } from "@/api/queries";
import { Empty, Loading } from "@/components/states";
import type { TerminalState } from "@/components/terminalScreen";
import { execPath } from "@/components/terminalSession";
import { UNKNOWN } from "@/model/format";
import { text } from "@/text/workload";
import type { Workload } from "./queries";
import classes from "./Terminal.module.css";

const TerminalScreen = lazy(() =>
  import("@/components/terminalScreen").then((found) => ({ default: found.TerminalScreen })),
);
const words = text.terminal;

interface Props {
  workload: Workload;
  /** Names of pods that run. */
  pods: string[];
  firstPod?: string | undefined;
  /** In its own tab; else it is docked at the bottom. */
  isLarge: boolean;
  onClose: () => void;
}

function stateWords(state: TerminalState): string {
  if (state.kind === "connecting") return words.connecting;
  if (state.kind === "connected") return words.connected;
  if (state.kind === "lost") return state.wasOpen ? words.lost : words.refused;
  return state.words !== "" ? words.endedWords(state.words) : words.ended(String(state.exitCode ?? UNKNOWN));
}

/** A shell in a pod: in its own tab, or below the others while one looks at something else. */
export function TerminalDock({ workload, pods, firstPod, isLarge, onClose }: Props) {
  const [chosen, setChosen] = useState<string | null>(firstPod ?? null);
  const [shell, setShell] = useState("bash");
  const [run, setRun] = useState(0);
  const [isFolded, setFolded] = useState(false);
  const [state, setState] = useState<TerminalState>({ kind: "connecting" });
  // The pod of a session stays, also when it has ended: its last output is still worth reading.
  const [kept, setKept] = useState<string | null>(null);
  const pod = pods.find((each) => each === chosen) ?? pods[0] ?? null;
  const mayRun = useMay("workload.update");
  const shown = kept !== null && (chosen === null || chosen === kept) ? kept : pod;
  if (kept === null && pod !== null) setKept(pod);
  const isOver = state.kind === "ended" || state.kind === "lost";
  return (
    <section
      className={clsx(classes.dock, isLarge ? classes.large : classes.small, isFolded && !isLarge && classes.folded)}
      aria-label={words.title}
    >
      <div className={classes.tools}>
        <strong>{words.title}</strong>
        <Select
          size="xs"
          w={200}
          aria-label={words.pod}
          data={shown !== null && !pods.includes(shown) ? [shown, ...pods] : pods}
          value={shown}
          onChange={(value) => {
            if (value === null) return;
            setChosen(value);
            setKept(value);
          }}
          allowDeselect={false}
        />
        <Select
          size="xs"
          w={110}
          aria-label={words.shell}
          data={words.shells}
          value={shell}
          onChange={(value) => value && setShell(value)}
          allowDeselect={false}
        />
        <span className={classes.state} role="status" data-terminal={state.kind}>
          {shown === null ? "" : stateWords(state)}
        </span>
        <span className={classes.space} />
        <Button
          size="xs"
          leftSection={<IconRefresh size={14} />}
          disabled={pod === null}
          variant={isOver ? "filled" : "default"}
          onClick={() => {
            setKept(pod);
            setRun((now) => now + 1);
          }}
        >
          {words.again}
        </Button>
        {!isLarge && (
          <ActionIcon
            size="sm"
            onClick={() => setFolded(!isFolded)}
            aria-label={isFolded ? words.larger : words.smaller}
          >
            {isFolded ? <IconChevronUp size={14} /> : <IconChevronDown size={14} />}
          </ActionIcon>
        )}
        <ActionIcon size="sm" onClick={onClose} aria-label={words.close}>
          <IconX size={14} />
        </ActionIcon>
      </div>
      <div className={classes.screen}>
        {shown === null || !mayRun ? (
          <Empty title={words.notRunning} hint={words.notRunningHint(workload.phase)} />
        ) : (
          <Suspense fallback={<Loading height={200} />}>
            <TerminalScreen
              key={`${shown} ${shell} ${run}`}
              path={execPath(workload.id, shown, [shell])}
              label={words.title}
              onState={setState}
            />
          </Suspense>
        )}
      </div>
      {isLarge && <p className={classes.hint}>{words.hint}</p>}
    </section>
  );
}
