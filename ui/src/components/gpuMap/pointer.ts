/** Mouse, touch and wheel on the canvas: hover, pick, pan, zoom, select. */
import type { Device } from "./devices";
import type { Painter } from "./scene";

/** The pointer rests this long before something is said about what is below it. */
const HOVER_MS = 80;
/** A press that moves less than this is a click. */
const CLICK_PX = 4;

export interface Reactions {
  /** Zooming and panning; without it, the wheel scrolls the page. */
  zooms: boolean;
  onHover: (device: Device | null, x: number, y: number) => void;
  onPick: (device: Device | null) => void;
  /** The map begins to be dragged about, or that is over. */
  onDrag: (isDragged: boolean) => void;
  onBand: (band: Band | null) => void;
  onSelect: ((devices: Device[]) => void) | undefined;
}

export interface Band {
  x: number;
  y: number;
  width: number;
  height: number;
}

interface Press {
  x: number;
  y: number;
  /** Where the pointer was last. */
  lastX: number;
  lastY: number;
  moved: boolean;
  selects: boolean;
}

export function listenToPointer(canvas: HTMLCanvasElement, painter: Painter, reactions: () => Reactions): () => void {
  const pressed = new Map<number, Press>();
  let hoverTimer: ReturnType<typeof setTimeout> | null = null;
  let hovered: Device | null = null;

  const place = (event: PointerEvent | MouseEvent) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const forget = () => {
    if (hoverTimer !== null) clearTimeout(hoverTimer);
    hoverTimer = null;
  };
  const leave = () => {
    forget();
    hovered = null;
    canvas.removeAttribute("data-on");
    reactions().onHover(null, 0, 0);
  };
  const hover = (x: number, y: number) => {
    const device = painter.at(x, y);
    canvas.toggleAttribute("data-on", device !== null);
    if (device === hovered) return;
    forget();
    hovered = device;
    if (device === null) reactions().onHover(null, 0, 0);
    else hoverTimer = setTimeout(() => reactions().onHover(device, x, y), HOVER_MS);
  };

  const onDown = (event: PointerEvent) => {
    const { x, y } = place(event);
    const selects = event.shiftKey && reactions().onSelect !== undefined;
    pressed.set(event.pointerId, { x, y, lastX: x, lastY: y, moved: false, selects });
    if (reactions().zooms && event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
    leave();
  };

  const onMove = (event: PointerEvent) => {
    const { x, y } = place(event);
    const press = pressed.get(event.pointerId);
    if (press === undefined) {
      if (event.pointerType === "mouse") hover(x, y);
      return;
    }
    if (!press.moved && Math.hypot(x - press.x, y - press.y) > CLICK_PX) {
      press.moved = true;
      if (reactions().zooms && !press.selects) reactions().onDrag(true);
    }
    if (press.selects) reactions().onBand(bandOf(press, x, y));
    else if (reactions().zooms && press.moved) drag(press, event.pointerId, x, y);
    press.lastX = x;
    press.lastY = y;
  };

  /** One finger pans; two also zoom, around the point between them. */
  const drag = (press: Press, id: number, x: number, y: number) => {
    const other = [...pressed].find(([each]) => each !== id)?.[1];
    if (other !== undefined) {
      const before = Math.hypot(press.lastX - other.lastX, press.lastY - other.lastY);
      const after = Math.hypot(x - other.lastX, y - other.lastY);
      if (before > 0) painter.zoom(after / before, { x: (x + other.lastX) / 2, y: (y + other.lastY) / 2 });
    }
    painter.pan((x - press.lastX) / pressed.size, (y - press.lastY) / pressed.size);
  };

  const onUp = (event: PointerEvent) => {
    const press = pressed.get(event.pointerId);
    pressed.delete(event.pointerId);
    if (press === undefined) return;
    if (pressed.size === 0) reactions().onDrag(false);
    const { x, y } = place(event);
    if (press.selects) {
      reactions().onBand(null);
      const band = bandOf(press, x, y);
      reactions().onSelect?.(painter.devicesIn(band.x, band.y, band.width, band.height));
    } else if (!press.moved) reactions().onPick(painter.at(x, y));
  };

  const onCancel = (event: PointerEvent) => {
    pressed.delete(event.pointerId);
    if (pressed.size === 0) reactions().onDrag(false);
    reactions().onBand(null);
  };

  const onWheel = (event: WheelEvent) => {
    if (!reactions().zooms) return;
    event.preventDefault();
    leave();
    painter.zoom(Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0016)), place(event));
  };

  const onDouble = () => {
    if (reactions().zooms) painter.fit();
  };

  canvas.addEventListener("pointerdown", onDown);
  canvas.addEventListener("pointermove", onMove);
  canvas.addEventListener("pointerup", onUp);
  canvas.addEventListener("pointercancel", onCancel);
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("wheel", onWheel, { passive: false });
  canvas.addEventListener("dblclick", onDouble);
  return () => {
    forget();
    reactions().onDrag(false);
    canvas.removeEventListener("pointerdown", onDown);
    canvas.removeEventListener("pointermove", onMove);
    canvas.removeEventListener("pointerup", onUp);
    canvas.removeEventListener("pointercancel", onCancel);
    canvas.removeEventListener("pointerleave", leave);
    canvas.removeEventListener("wheel", onWheel);
    canvas.removeEventListener("dblclick", onDouble);
  };
}

function bandOf(press: Press, x: number, y: number): Band {
  return {
    x: Math.min(press.x, x),
    y: Math.min(press.y, y),
    width: Math.abs(x - press.x),
    height: Math.abs(y - press.y),
  };
}
