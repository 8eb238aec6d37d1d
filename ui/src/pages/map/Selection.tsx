import { ActionIcon, Button } from "@mantine/core";
import { IconDownload, IconX } from "@tabler/icons-react";
import { useMemo } from "react";
import type { Device } from "@/components/gpuMap/devices";
import { ProjectName } from "@/components/ProjectName";
import { saveText } from "@/model/download";
import { gpus, percent } from "@/model/format";
import { text } from "@/text/map";
import { deviceCsv, rowsOf } from "./deviceRows";
import { sumOf } from "./legend";
import classes from "./MapPage.module.css";

/** What the selected devices are together. */
export function Selection({ devices, onClear }: { devices: readonly Device[]; onClear: () => void }) {
  const sum = useMemo(() => sumOf(devices), [devices]);
  const save = () => {
    const chosen = new Set(devices);
    const nodes = [...new Set(devices.map((each) => each.node))];
    saveText("devices.csv", deviceCsv(rowsOf(nodes, (each) => chosen.has(each))), "text/csv");
  };
  const facts: [string, string][] = [
    [text.selection.nodes, String(sum.nodes)],
    [text.selection.allocated, gpus(sum.allocated)],
    [text.selection.inQuota, gpus(sum.inQuota)],
    [text.selection.overQuota, gpus(sum.overQuota)],
    [text.selection.free, String(sum.free)],
    [text.selection.utilization, percent(sum.utilization)],
    [text.selection.workloads, String(sum.workloads.length)],
  ];
  return (
    <section className={classes.panel} aria-live="polite">
      <header className={classes.panelHead}>
        <h2>{text.selection.title(sum.devices)}</h2>
        <ActionIcon variant="subtle" color="gray" onClick={onClear} aria-label={text.selection.clear}>
          <IconX size={16} />
        </ActionIcon>
      </header>
      <div className={classes.panelBody}>
        <dl className={classes.facts}>
          {facts.map(([name, value]) => (
            <FactRow key={name} name={name} value={value} />
          ))}
        </dl>
        {sum.projects.length > 0 && <h3 className={classes.small}>{text.selection.projects}</h3>}
        <ul className={classes.sums}>
          {sum.projects.slice(0, 12).map((each) => (
            <li key={each.name}>
              <ProjectName project={each.name} plain={each.name === text.hidden} />
              <span>{gpus(each.gpus)}</span>
            </li>
          ))}
        </ul>
        <Button size="xs" leftSection={<IconDownload size={14} />} onClick={save}>
          {text.selection.csv}
        </Button>
      </div>
    </section>
  );
}

function FactRow({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
