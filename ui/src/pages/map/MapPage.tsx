import { Button, Drawer, Kbd } from "@mantine/core";
import { useMediaQuery, useViewportSize } from "@mantine/hooks";
import { IconLayoutGrid, IconListDetails } from "@tabler/icons-react";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState } from "react";
import type { Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { type Device, devicesIn, freeBlocks, isHighlighted } from "@/components/gpuMap/devices";
import { GpuCanvas } from "@/components/gpuMap/GpuCanvas";
import { grouped } from "@/components/gpuMap/layout";
import { useDevices, useMapNodes, useMapShares } from "@/components/gpuMap/mapModel";
import { Page } from "@/components/Page";
import { Empty, Loaded } from "@/components/states";
import { useChosenCluster } from "@/frame/cluster";
import { isTyping } from "@/frame/keys";
import { gpus } from "@/model/format";
import { text as frameText } from "@/text/frame";
import { text } from "@/text/map";
import { DeviceTable } from "./DeviceTable";
import { rowsOf } from "./deviceRows";
import { MapControls } from "./MapControls";
import { MapLegend } from "./MapLegend";
import classes from "./MapPage.module.css";
import { useExtra } from "./mapData";
import { type MapState, readState, writeState } from "./mapState";
import { PinnedDevice } from "./PinnedDevice";
import { Selection } from "./Selection";

export function MapPage() {
  const devices = useDevices();
  const chosen = useChosenCluster()?.uuid;
  const page = useMemo(() => devices.data && devicesIn(devices.data, chosen, undefined), [devices.data, chosen]);
  if (page !== undefined) {
    if (page.nodes.length > 0) return <MapOf page={page} />;
    return (
      <Page title={text.title}>
        <Empty
          title={text.noNodes}
          hint={text.noNodesHint}
          action={
            <Button component={Link} to="/clusters">
              {text.toClusters}
            </Button>
          }
        />
      </Page>
    );
  }
  return (
    <Page title={text.title}>
      <Card>
        <Loaded query={devices} height={560}>
          {() => null}
        </Loaded>
      </Card>
    </Page>
  );
}

function useMapState(devices: number): [MapState, (change: Partial<MapState>) => void] {
  const raw = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const state = useMemo(() => readState(raw, devices), [raw, devices]);
  const set = useCallback(
    (change: Partial<MapState>) => {
      void navigate({
        to: ".",
        replace: true,
        search: (before: Record<string, unknown>) => ({ ...before, ...writeState(change) }),
      } as never);
    },
    [navigate],
  );
  return [state, set];
}

function MapOf({ page }: { page: Schema<"DevicePage"> }) {
  const [state, setState] = useMapState(page.devices);
  const [keys, setKeys] = useState<ReadonlySet<string>>(new Set());
  const shares = useMapShares();
  const { extra, hasRacks } = useExtra(state.by, page);
  const nodes = useMapNodes(page, shares, extra);
  const isNarrow = useMediaQuery("(max-width: 700px)") ?? false;
  const { height: screen } = useViewportSize();
  const devices = useMemo(() => nodes.flatMap((each) => each.devices), [nodes]);
  const pinned = useMemo(() => devices.find((each) => each.key === state.pin) ?? null, [devices, state.pin]);
  const selected = useMemo(() => devices.filter((each) => keys.has(each.key)), [devices, keys]);
  const select = (chosen: readonly Device[]) => setKeys(new Set(chosen.map((each) => each.key)));
  useTableKey(() => setState({ isTable: !state.isTable }));
  const pick = (device: Device | null) => setState({ pin: device?.key });
  const highlight = highlightOf(state);
  const panel =
    selected.length > 0 ? (
      <Selection devices={selected} onClear={() => select([])} />
    ) : pinned !== null && !isNarrow ? (
      <PinnedDevice device={pinned} extra={extra} onClose={() => pick(null)} />
    ) : null;
  const held = devices.reduce((sum, each) => sum + Math.min(1000, each.heldMilli), 0);
  return (
    <Page
      title={text.title}
      lead={text.lead(gpus(held / 1000), page.devices, freeBlocks(nodes))}
      actions={<TableButton isTable={state.isTable} onChange={(isTable) => setState({ isTable })} />}
    >
      <div className={classes.columns}>
        <Card flush className={classes.map} label={text.title}>
          <MapControls state={state} onState={setState} hasRacks={hasRacks} devices={page.devices} />
          <MapLegend nodes={nodes} users={page.users} state={state} onState={setState} extra={extra} />
          {state.isTable ? (
            <DeviceTable
              rows={rowsOf(
                grouped(nodes, state.group, state.order).flatMap((each) => each.nodes),
                (each) => isHighlighted(each, highlight),
              )}
            />
          ) : (
            <div className={classes.canvas}>
              <GpuCanvas
                page={page}
                shares={shares}
                extra={extra}
                colourBy={state.by}
                groupBy={state.group}
                order={state.order}
                highlight={highlight}
                pinned={state.pin ?? null}
                selected={selected}
                onPick={pick}
                onSelect={select}
                height={Math.max(360, screen - (isNarrow ? 260 : 360))}
              />
            </div>
          )}
        </Card>
        {panel}
      </div>
      <Drawer
        opened={isNarrow && pinned !== null}
        onClose={() => pick(null)}
        position="bottom"
        size="70%"
        title={pinned === null ? "" : text.device(pinned.node.name, pinned.index)}
        closeButtonProps={{ "aria-label": frameText.shared.close }}
      >
        {pinned !== null && <PinnedDevice device={pinned} extra={extra} />}
      </Drawer>
    </Page>
  );
}

const highlightOf = ({ find, project, user, workload, state }: MapState) => ({ find, project, user, workload, state });

function TableButton({ isTable, onChange }: { isTable: boolean; onChange: (isTable: boolean) => void }) {
  return (
    <Button
      leftSection={isTable ? <IconLayoutGrid size={16} /> : <IconListDetails size={16} />}
      rightSection={<Kbd size="xs">t</Kbd>}
      onClick={() => onChange(!isTable)}
    >
      {isTable ? text.map : text.table}
    </Button>
  );
}

/** `t` switches between the map and its table. */
function useTableKey(toggle: () => void): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key !== "t" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      toggle();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
}
