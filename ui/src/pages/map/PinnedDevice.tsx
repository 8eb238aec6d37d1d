import { ActionIcon } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, got } from "@/api/client";
import { useProjectColour } from "@/api/queries";
import { HolderNote, Troubles, useOf } from "@/components/gpuMap/DeviceFacts";
import { type Device, type Extra, WHOLE } from "@/components/gpuMap/devices";
import { inkOn } from "@/components/gpuMap/look";
import { ProjectName } from "@/components/ProjectName";
import { bytes } from "@/model/format";
import { text } from "@/text/map";
import classes from "./MapPage.module.css";

interface Props {
  device: Device;
  extra: Extra;
  onClose?: () => void;
}

/** One device beside the map: who holds which part, how it is used, what would fit. */
export function PinnedDevice({ device, extra, onClose }: Props) {
  const { node } = device;
  const free = device.isWithheld ? 0 : WHOLE - device.heldMilli;
  return (
    <section className={classes.panel} aria-label={text.device(node.name, device.index)}>
      {onClose && (
        <header className={classes.panelHead}>
          <h2>{text.device(node.name, device.index)}</h2>
          <ActionIcon variant="subtle" color="gray" onClick={onClose} aria-label={text.pinned.close}>
            <IconX size={16} />
          </ActionIcon>
        </header>
      )}
      <div className={classes.panelBody}>
        <Picture device={device} free={free} />
        <dl className={classes.facts}>
          <dt>{text.facts.type}</dt>
          <dd>
            {[node.type, node.memoryMib > 0 ? bytes(node.memoryMib * 1024 * 1024) : null].filter(Boolean).join(", ")}
            {node.isSimulated ? ` · ${text.facts.simulated}` : ""}
          </dd>
          <dt>{text.facts.use}</dt>
          <dd>{useOf(device)}</dd>
          <dt>{text.facts.pool}</dt>
          <dd>{node.pool}</dd>
          {node.rack !== null && (
            <>
              <dt>{text.facts.rack}</dt>
              <dd>{node.rack}</dd>
            </>
          )}
        </dl>
        <Troubles device={device} />
        <Link to="/nodes/$node" params={{ node: node.name }} search={{ cluster: node.cluster } as never}>
          {text.pinned.node}
        </Link>
      </div>
      {device.parts.length > 0 && <Holders device={device} extra={extra} />}
      {free > 0 && !node.isOut && <Fits free={free / WHOLE} />}
    </section>
  );
}

function Picture({ device, free }: { device: Device; free: number }) {
  const colour = useProjectColour();
  return (
    <div className={classes.picture} aria-hidden="true">
      {device.parts
        .filter((each) => each.kind !== "promised")
        .map((part, number) => {
          const fill = colour(part.project);
          return (
            <div
              key={number}
              className={part.isOver ? classes.striped : undefined}
              style={{ flexGrow: part.milli, background: fill, color: inkOn(fill) }}
            >
              <strong style={{ background: fill }}>{part.name}</strong>
              <span style={{ background: fill }}>{part.profile ?? (part.milli / WHOLE).toFixed(2)}</span>
            </div>
          );
        })}
      {free > 0 && (
        <div className={classes.freePart} style={{ flexGrow: free }}>
          <strong>{text.facts.free}</strong>
          <span>{(free / WHOLE).toFixed(2)}</span>
        </div>
      )}
    </div>
  );
}

function Holders({ device, extra }: { device: Device; extra: Extra }) {
  return (
    <table className={classes.holders}>
      <thead>
        <tr>
          <th scope="col">{text.facts.holder}</th>
          <th scope="col" className={classes.number}>
            {text.facts.part}
          </th>
        </tr>
      </thead>
      <tbody>
        {device.parts.map((part, number) => (
          <tr key={number}>
            <td>
              {part.id === null ? (
                part.name
              ) : (
                <Link to="/workloads/$workload" params={{ workload: part.id }} className={classes.holderLink}>
                  {part.name}
                </Link>
              )}
              {part.id !== null && <ProjectName project={part.project} />}
              <HolderNote part={part} device={device} extra={extra} hasProject={false} />
            </td>
            <td className={classes.number}>{part.profile ?? (part.milli / WHOLE).toFixed(2)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** How many waiting workloads ask for no more than what is free here. */
function Fits({ free }: { free: number }) {
  const waiting = useQuery({
    queryKey: ["waiting", "all"],
    queryFn: () => got(api.GET("/api/v1/workloads/waiting", { params: { query: { limit: 500 } } })),
  }).data;
  if (waiting === undefined) return null;
  const fitting = waiting.workloads.filter((each) => each.requestedGPU > 0 && each.requestedGPU <= free + 1e-9);
  return (
    <div className={classes.panelBody}>
      <h3 className={classes.small}>{text.pinned.fits(free.toFixed(2))}</h3>
      {fitting.length === 0 ? (
        <p>{text.pinned.fitsNone}</p>
      ) : (
        <Link to="/workloads" search={{ f: ["phase==Pending"] } as never}>
          {text.pinned.waiting(fitting.length)}
        </Link>
      )}
    </div>
  );
}
