import { useProjectColour } from "@/api/queries";
import { useNow } from "@/components/Moment";
import { bytes, clock, moment, percent } from "@/model/format";
import { text } from "@/text/map";
import type { Device, Extra, Part } from "./devices";
import { WHOLE } from "./devices";
import classes from "./GpuCanvas.module.css";

/** A device in words: what it is, who holds which part of it, how it is used. */
export function DeviceFacts({ device, extra }: { device: Device; extra?: Extra | undefined }) {
  const { node } = device;
  const memory = node.memoryMib > 0 ? bytes(node.memoryMib * 1024 * 1024) : null;
  const free = WHOLE - device.heldMilli;
  return (
    <>
      <p className={classes.factsTitle}>{text.device(node.name, device.index)}</p>
      <p className={classes.factsNote}>
        {[node.type, memory, node.isSimulated ? text.facts.simulated : null].filter(Boolean).join(" · ")}
      </p>
      {device.parts.length > 0 && (
        <ul className={classes.holders}>
          {device.parts.map((part, number) => (
            <HolderLine key={number} part={part} device={device} extra={extra} />
          ))}
        </ul>
      )}
      <p className={classes.factsNote}>{useOf(device)}</p>
      {device.heldMilli > 0 && free > 0 && !device.isWithheld && (
        <p className={classes.factsNote}>{text.facts.freePart((free / WHOLE).toFixed(2))}</p>
      )}
      <Troubles device={device} />
    </>
  );
}

/** What is wrong with a device, in sentences. */
export function Troubles({ device }: { device: Device }) {
  const { node } = device;
  const words = [
    device.isWithheld ? text.facts.withheld(node.message) : null,
    node.silentSince ? text.facts.silentSince(moment(node.silentSince)) : null,
    node.isDrained ? text.facts.drained : null,
    device.parts.length === 0 && !device.isWithheld ? text.facts.notHeld : null,
  ].filter((each) => each !== null);
  return words.map((each) => (
    <p key={each} className={classes.factsNote}>
      {each}
    </p>
  ));
}

/** Compute, memory, temperature and power, as far as they were measured. */
export function useOf(device: Device): string {
  const all = device.node.memoryMib * 1024 * 1024;
  return [
    text.facts.compute(percent(device.utilization)),
    device.memoryBytes === null ? null : text.facts.memoryOf(bytes(device.memoryBytes), bytes(all)),
    device.temperature === null ? null : text.facts.degrees(device.temperature),
    device.powerWatts === null ? null : text.facts.watts(device.powerWatts),
  ]
    .filter((each) => each !== null)
    .join(" · ");
}

function HolderLine({ part, device, extra }: { part: Part; device: Device; extra: Extra | undefined }) {
  const colour = useProjectColour();
  return (
    <li>
      <span className={classes.dot} style={{ background: colour(part.project) }} aria-hidden="true" />
      <span className={classes.holderName}>{part.name}</span>
      <span className={classes.holderPart}>{part.profile ?? (part.milli / WHOLE).toFixed(2)}</span>
      <HolderNote part={part} device={device} extra={extra} />
    </li>
  );
}

/** Owner, in or over quota, run time, since when it is idle. */
export function HolderNote({
  part,
  device,
  extra,
  hasProject = true,
}: {
  part: Part;
  device: Device;
  extra?: Extra | undefined;
  hasProject?: boolean;
}) {
  const now = useNow();
  const started = part.id === null ? undefined : extra?.started?.get(part.id);
  const words = [
    part.id === null ? null : part.user,
    hasProject ? part.project : null,
    part.kind === "held" ? (part.isOver ? text.states.over : text.states.in) : text.states[part.kind],
    started === undefined || part.kind === "promised" ? null : text.facts.runsFor(clock(now - started)),
    device.isIdle && device.idleSeconds !== null
      ? text.facts.idleSince(moment(new Date(now - device.idleSeconds * 1000).toISOString()))
      : device.isIdle
        ? text.states.idle
        : null,
  ].filter((each) => each !== null);
  return <span className={classes.holderNote}>{words.join(" · ")}</span>;
}
