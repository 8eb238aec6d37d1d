import { useElementSize } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import type { Schema } from "@/api/client";
import { useProjectColour } from "@/api/queries";
import { changeStream } from "@/api/stream";
import { gpus } from "@/model/format";
import { text } from "@/text/map";
import { useScheme } from "@/theme/scheme";
import { DeviceFacts } from "./DeviceFacts";
import type { Device, Extra, Highlight } from "./devices";
import classes from "./GpuCanvas.module.css";
import type { GroupBy, Order } from "./layout";
import { type ColourBy, lookOf, paintBy } from "./look";
import { Minimap, ZoomButtons } from "./Minimap";
import { useMapNodes } from "./mapModel";
import { type Band, listenToPointer, type Reactions } from "./pointer";
import { MapScene, Painter } from "./scene";
import { MARGIN } from "./view";

export type { Device } from "./devices";

interface Props {
  page: Schema<"DevicePage">;
  /** The most that it takes; less if everything is seen in less. */
  height?: number;
  /** For cards of other pages: fits the width, no zoom. */
  compact?: boolean;
  colourBy?: ColourBy;
  /** By the largest holder where there are more than 300 devices, else by name. */
  order?: Order;
  groupBy?: GroupBy;
  highlight?: Highlight;
  onPick?: (device: Device | null) => void;
  onSelect?: (devices: Device[]) => void;
  /** The device that is open beside the map. */
  pinned?: string | null;
  selected?: readonly Device[];
  /** To tell in quota from over quota. */
  shares?: Pick<Schema<"SharesPage">, "shares"> | undefined;
  extra?: Extra | undefined;
}

const REGIONS_FROM = 300;
/** From this width on, zooming shows nothing more. */
const NAMES_FROM = 56;
const HEIGHT = 560;
const COMPACT_HEIGHT = 420;

interface Hovered {
  device: Device;
  x: number;
  y: number;
}

/** Every device on one canvas: who holds which part of it. */
export function GpuCanvas(props: Props) {
  const { page, compact = false, colourBy = "project", groupBy = "pool", highlight, extra } = props;
  const { ref: frame, width } = useElementSize<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const nodes = useMapNodes(page, props.shares, extra);
  const map = useScene(nodes, page, { ...props, compact, colourBy, groupBy, highlight }, width);
  const [painter, setPainter] = useState<Painter | null>(null);
  const [isZoomed, setZoomed] = useState(false);
  const [hovered, setHovered] = useState<Hovered | null>(null);
  const [band, setBand] = useState<Band | null>(null);
  const [said, setSaid] = useState("");
  const navigate = useNavigate();
  const pick =
    props.onPick ??
    ((device) => {
      if (device !== null) void navigate({ to: "/map", search: { pin: device.key } as never });
    });

  const zooms = !compact && (isZoomed || (map !== null && map.scene.layout.deviceWidth < NAMES_FROM));
  const reactions = useRef<Reactions>(null as never);
  const release = useRef<(() => void) | null>(null);
  reactions.current = {
    zooms,
    onHover: (device, x, y) => {
      if (painter === null) return;
      painter.current.scene.related = painter.current.relatedTo(device);
      painter.dirty();
      setHovered(device === null ? null : { device, x, y });
    },
    onPick: pick,
    onDrag: (isDragged) => {
      release.current?.();
      release.current = isDragged ? changeStream().hold() : null;
    },
    onBand: setBand,
    onSelect: props.onSelect,
  };

  useEffect(() => {
    if (canvas.current === null || map === null || painter !== null) return;
    setPainter(new Painter(canvas.current, map));
  }, [map, painter]);
  useEffect(() => {
    if (painter === null || canvas.current === null) return;
    const unwatch = painter.watch((view) => setZoomed(view.scale > 1.01));
    const stop = listenToPointer(canvas.current, painter, () => reactions.current);
    return () => {
      unwatch();
      stop();
      painter.stop();
    };
  }, [painter]);
  useEffect(() => {
    if (painter === null || map === null || width === 0) return;
    painter.show(map, { width, height: heightOf(map, props.height, compact) });
    painter.current.scene.pinned = map.find(props.pinned);
    painter.current.scene.selected = new Set((props.selected ?? []).map((each) => map.find(each.key)!));
  }, [painter, map, width, props.height, compact, props.pinned, props.selected]);

  const onKey = (event: KeyboardEvent) => {
    if (painter === null) return;
    const device = moved(painter, event.key);
    if (device === "pick") pick(painter.current.scene.focused);
    else if (device === "leave") props.onPick?.(null);
    else if (device === null) return;
    else setSaid(inWords(device));
    event.preventDefault();
    event.stopPropagation();
  };
  const onBlur = () => {
    if (painter === null) return;
    painter.current.scene.focused = null;
    painter.dirty();
  };
  return (
    <div ref={frame} className={classes.frame}>
      <canvas
        ref={canvas}
        className={classes.canvas}
        data-zooms={zooms ? (isZoomed ? "zoomed" : "fit") : undefined}
        role={compact ? "img" : "application"}
        tabIndex={compact ? undefined : 0}
        aria-label={compact ? summaryOf(nodes) : text.canvas(page.devices, nodes.length)}
        onKeyDown={compact ? undefined : onKey}
        onBlur={onBlur}
      />
      <span className="visually-hidden" aria-live="polite">
        {said}
      </span>
      {band !== null && (
        <div className={classes.band} style={{ left: band.x, top: band.y, width: band.width, height: band.height }} />
      )}
      {painter !== null && isZoomed && width > 600 && <Minimap painter={painter} />}
      {painter !== null && zooms && <ZoomButtons painter={painter} isZoomed={isZoomed} />}
      {hovered !== null && (
        <HoverCard hovered={hovered} width={width} height={painter?.size.height ?? 0} extra={extra} />
      )}
    </div>
  );
}

interface HoverProps {
  hovered: Hovered;
  width: number;
  height: number;
  extra: Extra | undefined;
}

/** Beside the pointer, on the side where there is room. */
function HoverCard({ hovered, width, height, extra }: HoverProps) {
  const isRight = hovered.x > width / 2;
  const isLow = height > 240 && hovered.y > height / 2;
  return (
    <div
      className={classes.hover}
      style={{
        ...(isLow ? { top: hovered.y - 12, transform: "translateY(-100%)" } : { top: hovered.y + 16 }),
        ...(isRight ? { right: width - hovered.x + 8 } : { left: hovered.x + 12 }),
      }}
      role="tooltip"
    >
      <DeviceFacts device={hovered.device} extra={extra} />
    </div>
  );
}

type Drawn = Required<Pick<Props, "compact" | "colourBy" | "groupBy">> & Omit<Props, "page">;

function useScene(
  nodes: ReturnType<typeof useMapNodes>,
  page: Schema<"DevicePage">,
  { compact, colourBy, groupBy, highlight, extra, height, order }: Drawn,
  width: number,
): MapScene | null {
  const projectColour = useProjectColour();
  const scheme = useScheme();
  const searched = JSON.stringify(highlight ?? {});
  return useMemo(() => {
    if (width === 0) return null;
    const look = lookOf(document.documentElement);
    const paint = paintBy(colourBy, look, projectColour, page.users, scheme, extra ?? {});
    const options = {
      width: width - 2 * MARGIN,
      height: (height ?? (compact ? COMPACT_HEIGHT : HEIGHT)) - 2 * MARGIN,
      groupBy,
      order: order ?? (page.devices > REGIONS_FROM ? "holder" : "name"),
    };
    return new MapScene(nodes, options, look, paint, JSON.parse(searched));
  }, [nodes, page, width, height, compact, colourBy, groupBy, order, searched, extra, projectColour, scheme]);
}

/** As high as its content, and no higher than asked for. */
function heightOf(map: MapScene, height: number | undefined, compact: boolean): number {
  const content = Math.ceil(map.scene.layout.height) + 2 * MARGIN;
  if (compact) return content;
  return Math.min(Math.max(content, 200), height ?? HEIGHT);
}

const STEPS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** The device that a key leads to; null: the key means nothing here. */
function moved(painter: Painter, key: string): Device | "pick" | "leave" | null {
  const { scene } = painter.current;
  const step = STEPS[key];
  if (key === "Escape") return "leave";
  if (key === "+" || key === "-") painter.zoom(key === "+" ? 1.4 : 1 / 1.4);
  if (key === "0") painter.fit();
  if (key === "Enter" || key === " ") return scene.focused === null ? null : "pick";
  if (step === undefined) return null;
  const from = scene.focused ?? scene.pinned;
  scene.focused =
    from === null ? (scene.layout.places[0]?.node.devices[0] ?? null) : scene.lookup.next(from, step[0], step[1]);
  if (scene.focused !== null) painter.reveal(scene.focused);
  return scene.focused;
}

function inWords(device: Device): string {
  const parts = device.parts.map(
    (each) =>
      `${each.name} ${gpus(each.milli / 1000)} ${each.isOver ? text.states.over : text.states.in} ${each.project}`,
  );
  return [text.device(device.node.name, device.index), ...(parts.length > 0 ? parts : [text.states.free])].join(", ");
}

function summaryOf(nodes: ReturnType<typeof useMapNodes>): string {
  const devices = nodes.flatMap((each) => each.devices);
  const held = devices.reduce((sum, each) => sum + Math.min(1000, each.heldMilli), 0) / 1000;
  return text.summary(devices.length, nodes.length, gpus(held));
}
