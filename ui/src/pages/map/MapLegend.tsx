import clsx from "clsx";
import { type ReactNode, useMemo, useState } from "react";
import { useProjectColour } from "@/api/queries";
import type { Extra, MapNode } from "@/components/gpuMap/devices";
import { isScale, lookOf, type Scale, STEP_ENDS, STEPS, stepColour } from "@/components/gpuMap/look";
import { text } from "@/text/map";
import { colourOfSlot, slotsOf } from "@/theme/projectColours";
import { useScheme } from "@/theme/scheme";
import { holders, states, steps } from "./legend";
import classes from "./MapPage.module.css";
import type { MapState } from "./mapState";

interface Props {
  nodes: readonly MapNode[];
  users: readonly string[];
  state: MapState;
  onState: (change: Partial<MapState>) => void;
  extra: Extra;
}

const SHOWN = 12;
const amount = (value: number): string =>
  Number.isInteger(Math.round(value * 100) / 100) ? String(Math.round(value)) : value.toFixed(2);

/** What colours and patterns mean, with counts. An entry dims all others. */
export function MapLegend(props: Props) {
  const { state } = props;
  return (
    <>
      {isScale(state.by) ? (
        <StepLegend {...props} scale={state.by} />
      ) : (
        <HolderLegend {...props} of={state.by === "user" ? "user" : "project"} />
      )}
      <StateLegend {...props} />
    </>
  );
}

function HolderLegend({ nodes, users, state, onState, of }: Props & { of: "project" | "user" }) {
  const [showsAll, setShowsAll] = useState(false);
  const projectColour = useProjectColour();
  const scheme = useScheme();
  const entries = useMemo(() => holders(nodes, of), [nodes, of]);
  const slots = useMemo(() => slotsOf([...users].sort()), [users]);
  const colour = (name: string) => (of === "project" ? projectColour(name) : colourOfSlot(slots.get(name), scheme));
  const shown = showsAll || entries.length <= SHOWN + 1 ? entries : entries.slice(0, SHOWN);
  const rest = entries.slice(shown.length);
  if (entries.length === 0) return null;
  return (
    <fieldset className={classes.legend} aria-label={text.legend}>
      {shown.map((each) => (
        <Chip
          key={each.name}
          isChosen={state[of] === each.name}
          onClick={() => onState({ [of]: state[of] === each.name ? undefined : each.name })}
          count={amount(each.gpus)}
          swatch={<span className={classes.swatch} style={{ background: colour(each.name) }} />}
        >
          {each.name}
        </Chip>
      ))}
      {(rest.length > 0 || showsAll) && (
        <Chip
          isChosen={false}
          onClick={() => setShowsAll(!showsAll)}
          count={showsAll ? "" : amount(rest.reduce((sum, each) => sum + each.gpus, 0))}
        >
          {showsAll ? text.less : text.more(rest.length)}
        </Chip>
      )}
    </fieldset>
  );
}

const MARKS: Record<string, string> = { idle: "☾", drained: "✕", withheld: "!", leaving: "◷", silent: "…" };

function StateLegend({ nodes, state, onState }: Props) {
  const counts = useMemo(() => states(nodes), [nodes]);
  return (
    <fieldset className={classes.legend} aria-label={text.legendStates}>
      {counts.map((each) => (
        <Chip
          key={each.state}
          isChosen={state.state === each.state}
          onClick={() => onState({ state: state.state === each.state ? undefined : each.state })}
          count={amount(each.count)}
          swatch={
            each.state in MARKS ? (
              <span className={classes.mark}>{MARKS[each.state]}</span>
            ) : (
              <span className={clsx(classes.pattern, classes[each.state])} />
            )
          }
        >
          {text.states[each.state]}
        </Chip>
      ))}
    </fieldset>
  );
}

interface ChipProps {
  isChosen: boolean;
  onClick: () => void;
  count: string;
  swatch?: ReactNode;
  children: ReactNode;
}

function Chip({ isChosen, onClick, count, swatch, children }: ChipProps) {
  return (
    <button
      type="button"
      className={clsx(classes.chip, isChosen && classes.chosen)}
      aria-pressed={isChosen}
      onClick={onClick}
    >
      {swatch && <span aria-hidden="true">{swatch}</span>}
      <span className={classes.chipName}>{children}</span>
      <strong>{count}</strong>
    </button>
  );
}

function StepLegend({ nodes, scale, extra }: Props & { scale: Scale }) {
  const scheme = useScheme();
  const counts = useMemo(() => steps(nodes, scale, extra, Date.now()), [nodes, scale, extra]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the tokens follow the scheme
  const look = useMemo(() => lookOf(document.documentElement), [scheme]);
  const ends = STEP_ENDS[scale];
  const unit = text.unit[scale];
  const range = (step: number): string => {
    if (step === 0) return text.below(ends[0]!, unit);
    if (step === STEPS - 1) return text.above(ends[step - 1]!, unit);
    return text.from(ends[step - 1]!, ends[step]!, unit);
  };
  return (
    <ul className={classes.legend}>
      {counts.map((count, step) => (
        <li key={step} className={classes.step}>
          <span
            className={classes.swatch}
            style={{ background: step === STEPS ? look.sunken : stepColour(step, look) }}
            aria-hidden="true"
          />
          {step === STEPS ? text.notMeasured : range(step)}
          <strong>{count}</strong>
        </li>
      ))}
    </ul>
  );
}
