/** Choosing the time that a page is about. */
import { Button, Group, Popover, SegmentedControl, Select, Stack, Text } from "@mantine/core";
import { DateTimePicker } from "@mantine/dates";
import { useMediaQuery } from "@mantine/hooks";
import { IconCalendar } from "@tabler/icons-react";
import { useState } from "react";
import { moment } from "@/model/format";
import { boundsOf, type Period, type Preset } from "@/model/period";
import { text } from "@/text/analytics";

interface Props {
  period: Period;
  presets: readonly Preset[];
  onChange: (period: Period) => void;
}

const words = text.period;
const CUSTOM = "custom";

export function ChartPeriod({ period, presets, onChange }: Props) {
  const isNarrow = useMediaQuery("(max-width: 700px)");
  const value = "preset" in period ? period.preset : CUSTOM;
  const choices = presets.map((each) => ({ value: each as string, label: words.presets[each] }));
  const choose = (chosen: string | null) => {
    if (chosen !== null && chosen !== CUSTOM) onChange({ preset: chosen as Preset });
  };
  return (
    <Group gap={8} wrap="wrap">
      {isNarrow ? (
        <Select
          data={"preset" in period ? choices : [...choices, { value: CUSTOM, label: words.custom }]}
          value={value}
          onChange={choose}
          aria-label={words.label}
          w={132}
          allowDeselect={false}
        />
      ) : (
        <SegmentedControl data={choices} value={value} onChange={choose} size="xs" aria-label={words.label} />
      )}
      <FromTo period={period} onChange={onChange} />
    </Group>
  );
}

function FromTo({ period, onChange }: Omit<Props, "presets">) {
  const [isOpen, open] = useState(false);
  const bounds = boundsOf(period, Date.now());
  const [from, setFrom] = useState<string | null>(null);
  const [to, setTo] = useState<string | null>(null);
  const start = from === null ? bounds.from : Date.parse(from.replace(" ", "T"));
  const end = to === null ? bounds.to : Date.parse(to.replace(" ", "T"));
  const label = "preset" in period ? words.custom : `${shown(period.from)} – ${shown(period.to)}`;
  const toggle = (next: boolean) => {
    if (next) {
      setFrom(local(bounds.from));
      setTo(local(bounds.to));
    }
    open(next);
  };
  return (
    <Popover opened={isOpen} onChange={toggle} position="bottom-start" shadow="md" withinPortal trapFocus>
      <Popover.Target>
        <Button
          size="xs"
          variant={"preset" in period ? "default" : "light"}
          leftSection={<IconCalendar size={14} />}
          onClick={() => toggle(!isOpen)}
          aria-expanded={isOpen}
        >
          {label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap={8} w={260}>
          <DateTimePicker
            label={words.from}
            value={from}
            onChange={setFrom}
            withSeconds
            popoverProps={{ withinPortal: false }}
          />
          <DateTimePicker
            label={words.to}
            value={to}
            onChange={setTo}
            withSeconds
            popoverProps={{ withinPortal: false }}
          />
          {!(start < end) && (
            <Text size="xs" c="red" role="alert">
              {words.wrong}
            </Text>
          )}
          <Button
            variant="filled"
            disabled={!(start < end)}
            onClick={() => {
              onChange({ from: start, to: end });
              open(false);
            }}
          >
            {words.apply}
          </Button>
        </Stack>
      </Popover.Dropdown>
    </Popover>
  );
}

const shown = (at: number): string => moment(new Date(at).toISOString());

/** As the picker writes it: in the reader's zone. */
const local = (at: number): string => new Date(at).toLocaleString("sv-SE");
