import { Button, Select, Switch } from "@mantine/core";
import { useDisclosure, useMediaQuery } from "@mantine/hooks";
import { IconAdjustmentsHorizontal } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { clustersQuery, departmentsQuery, poolsQuery, projectsQuery } from "@/api/queries";
import { ChartPeriod } from "@/components/ChartPeriod";
import { chooseCluster, useOneCluster } from "@/frame/cluster";
import { LENGTHS, type Preset } from "@/model/period";
import { text } from "@/text/analytics";
import classes from "./Analytics.module.css";
import type { Asked, AskedChange, FilterName } from "./search";
import { useUserNames } from "./users";

const PRESETS = Object.keys(LENGTHS) as Preset[];
const words = text.filters;

interface Props {
  asked: Asked;
  onAsk: (change: AskedChange) => void;
}

export function Toolbar({ asked, onAsk }: Props) {
  const isNarrow = useMediaQuery("(max-width: 700px)");
  const [isOpen, { toggle }] = useDisclosure(false);
  const count = Object.keys(asked.filters).length;
  return (
    <div className={classes.toolbar}>
      <ChartPeriod period={asked.period} presets={PRESETS} onChange={(period) => onAsk({ period })} />
      <Switch
        size="xs"
        label={isNarrow ? words.compareShort : words.compare}
        checked={asked.compare}
        onChange={(event) => onAsk({ compare: event.currentTarget.checked })}
      />
      {isNarrow && (
        <Button size="xs" leftSection={<IconAdjustmentsHorizontal size={14} />} onClick={toggle} aria-expanded={isOpen}>
          {words.open(count)}
        </Button>
      )}
      {(!isNarrow || isOpen) && <FilterFields asked={asked} onAsk={onAsk} />}
    </div>
  );
}

export function FilterFields({ asked, onAsk }: Props) {
  const clusters = useQuery(clustersQuery).data ?? [];
  const cluster = useOneCluster();
  const pools = useQuery(poolsQuery).data ?? [];
  const departments = useQuery(departmentsQuery).data ?? [];
  const projects = useQuery(projectsQuery).data ?? [];
  const users = useUserNames();
  const choices: Record<FilterName, { value: string; label: string }[]> = {
    pool: pools.map((each) => same(each.name)),
    department: departments.map((each) => same(each.name)),
    project: projects
      .filter((each) => asked.filters.department === undefined || each.parent.name === asked.filters.department)
      .map((each) => same(each.name)),
    kind: Object.entries(words.kinds).map(([value, label]) => ({ value, label })),
    user: users.map(same),
  };
  const set = (name: FilterName, value: string | null) => {
    const { [name]: _gone, ...others } = asked.filters;
    onAsk({ filters: value === null ? others : { ...others, [name]: value } });
  };
  return (
    <>
      {clusters.length > 1 && (
        <Select
          size="xs"
          w={140}
          aria-label={words.cluster}
          data={clusters.map((each) => ({ value: each.uuid, label: each.name }))}
          value={cluster?.uuid ?? null}
          onChange={(value) => chooseCluster(value)}
          allowDeselect={false}
        />
      )}
      {(Object.keys(choices) as FilterName[]).map((name) => (
        <Select
          key={name}
          size="xs"
          w={140}
          placeholder={words[name]}
          aria-label={words[name]}
          data={withValue(choices[name], asked.filters[name])}
          value={asked.filters[name] ?? null}
          onChange={(value) => set(name, value)}
          clearable
          searchable
        />
      ))}
      {Object.keys(asked.filters).length > 0 && (
        <Button size="compact-xs" variant="subtle" onClick={() => onAsk({ filters: {} })}>
          {words.clear}
        </Button>
      )}
    </>
  );
}

const same = (name: string): { value: string; label: string } => ({ value: name, label: name });

/** What the address names is a choice, even if it is gone. */
function withValue(choices: { value: string; label: string }[], value: string | undefined) {
  const unique = [...new Map(choices.map((each) => [each.value, each])).values()];
  return value === undefined || unique.some((each) => each.value === value) ? unique : [...unique, same(value)];
}
