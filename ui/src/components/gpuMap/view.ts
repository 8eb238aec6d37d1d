/** The part of the layout that is seen, and how large. */
import type { Box } from "./layout";

export interface View {
  /** The point of the layout at the top left. */
  x: number;
  y: number;
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

/** Room around the layout, so that outlines at its edges are whole. */
export const MARGIN = 6;
/** The widest that a device is shown. */
const CLOSEST = 128;

export const FIT: View = { x: 0, y: 0, scale: 1 };

export function toScreen(view: View, x: number, y: number): [number, number] {
  return [(x - view.x) * view.scale + MARGIN, (y - view.y) * view.scale + MARGIN];
}

export function toLayout(view: View, x: number, y: number): [number, number] {
  return [(x - MARGIN) / view.scale + view.x, (y - MARGIN) / view.scale + view.y];
}

/** What is seen of the layout. */
export function seen(view: View, size: Size): Box {
  const [x, y] = toLayout(view, 0, 0);
  return { x, y, width: size.width / view.scale, height: size.height / view.scale };
}

/** Within the layout: no view is empty. */
export function clamped(view: View, size: Size, layout: Size): View {
  const width = (size.width - 2 * MARGIN) / view.scale;
  const height = (size.height - 2 * MARGIN) / view.scale;
  return {
    scale: view.scale,
    x: Math.max(0, Math.min(view.x, layout.width - width)),
    y: Math.max(0, Math.min(view.y, layout.height - height)),
  };
}

/** Closer or farther by a factor, with the point under the pointer staying where it is. */
export function zoomed(
  view: View,
  factor: number,
  at: { x: number; y: number },
  size: Size,
  layout: Size & { deviceWidth: number },
): View {
  const closest = Math.max(1, CLOSEST / layout.deviceWidth);
  const scale = Math.max(1, Math.min(closest, view.scale * factor));
  const [x, y] = toLayout(view, at.x, at.y);
  const next = { scale, x: x - (at.x - MARGIN) / scale, y: y - (at.y - MARGIN) / scale };
  return clamped(next, size, layout);
}

export function panned(view: View, dx: number, dy: number, size: Size, layout: Size): View {
  return clamped({ scale: view.scale, x: view.x - dx / view.scale, y: view.y - dy / view.scale }, size, layout);
}

/** Moved just so far that a box is in sight. */
export function showing(view: View, box: Box, size: Size, layout: Size): View {
  const sight = seen(view, size);
  const x = Math.min(box.x - 4, Math.max(view.x, box.x + box.width + 16 - sight.width));
  const y = Math.min(box.y - 4, Math.max(view.y, box.y + box.height + 16 - sight.height));
  return clamped({ scale: view.scale, x, y }, size, layout);
}

export type Level = "nodes" | "cells" | "small" | "parts" | "names";

/** How much is drawn, by the width of a device in pixels. */
export function levelOf(width: number): Level {
  if (width >= 56) return "names";
  if (width >= 20) return "parts";
  if (width >= 8) return "small";
  return width >= 3 ? "cells" : "nodes";
}
