import { Button, Menu, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconCheck, IconChevronDown, IconSearch } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { text } from "@/text/map";
import classes from "./MapPage.module.css";
import { COLOURS, GROUPS, type MapState, ORDERS } from "./mapState";

interface Props {
  state: MapState;
  onState: (change: Partial<MapState>) => void;
  hasRacks: boolean;
  devices: number;
}

export function MapControls({ state, onState, hasRacks, devices }: Props) {
  return (
    <div className={classes.controls}>
      <Choice
        label={text.colourBy}
        value={state.by}
        of={COLOURS}
        words={text.colours}
        onChange={(by) => onState({ by })}
      />
      <Choice
        label={text.groupBy}
        value={state.group}
        of={GROUPS.filter((each) => each !== "rack" || hasRacks)}
        words={text.groups}
        onChange={(group) => onState({ group })}
      />
      <Choice
        label={text.order}
        value={state.order}
        of={ORDERS}
        words={text.orders}
        onChange={(order) => onState({ order })}
      />
      <Find value={state.find} onChange={(find) => onState({ find })} />
      <span className={classes.hint}>{devices >= 64 ? text.hint(devices) : text.hintSmall(devices)}</span>
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  of: readonly T[];
  words: Record<T, string>;
  onChange: (value: T) => void;
}

function Choice<T extends string>({ label, value, of, words, onChange }: ChoiceProps<T>) {
  return (
    <Menu position="bottom-start">
      <Menu.Target>
        <Button size="xs" rightSection={<IconChevronDown size={14} />} className={classes.choice}>
          <span className={classes.choiceLabel}>{label}</span> {words[value]}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {of.map((each) => (
          <Menu.Item
            key={each}
            role="menuitemradio"
            aria-checked={each === value}
            leftSection={each === value ? <IconCheck size={14} /> : <span className={classes.noCheck} />}
            onClick={() => onChange(each)}
          >
            {words[each]}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function Find({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  const tell = useDebouncedCallback(onChange, 150);
  useEffect(() => setTyped(value), [value]);
  return (
    <TextInput
      size="xs"
      type="search"
      className={classes.find}
      leftSection={<IconSearch size={14} />}
      placeholder={text.find}
      aria-label={text.find}
      value={typed}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        tell(event.currentTarget.value);
      }}
    />
  );
}
