/** The state behind one canvas: what is drawn, from where, and when it is drawn again. Outside React, because panning
 * and hovering change it many times a second. */
import { type Device, type Highlight, isEmpty, isHighlighted, type MapNode } from "./devices";
import { draw, drawGroupNames, forgetWidths, type Scene } from "./draw";
import { boxOf, Lookup, layoutOf, type Options } from "./layout";
import type { Look, Paint } from "./look";
import { FIT, MARGIN, panned, type Size, seen, showing, toLayout, type View, zoomed } from "./view";

const NONE: ReadonlySet<Device> = new Set();

export class MapScene {
  readonly nodes: readonly MapNode[];
  readonly scene: Scene;
  private readonly byWorkload = new Map<string, Device[]>();

  constructor(nodes: readonly MapNode[], options: Options, look: Look, paint: Paint, highlight?: Highlight) {
    this.nodes = nodes;
    const layout = layoutOf(nodes, options);
    this.scene = {
      layout,
      lookup: new Lookup(layout),
      look,
      paint,
      lit: null,
      related: NONE,
      pinned: null,
      focused: null,
      selected: NONE,
    };
    for (const node of nodes)
      for (const device of node.devices)
        for (const part of device.parts)
          if (part.id !== null) {
            const there = this.byWorkload.get(part.id);
            if (there === undefined) this.byWorkload.set(part.id, [device]);
            else there.push(device);
          }
    if (highlight !== undefined && !isEmpty(highlight))
      this.scene.lit = new Set(nodes.flatMap((each) => each.devices.filter((one) => isHighlighted(one, highlight))));
  }

  /** All devices of the workloads on a device, on other nodes too. */
  relatedTo(device: Device | null): ReadonlySet<Device> {
    if (device === null) return NONE;
    return new Set([device, ...device.parts.flatMap((each) => (each.id && this.byWorkload.get(each.id)) || [])]);
  }

  find(key: string | null | undefined): Device | null {
    if (!key) return null;
    const at = key.lastIndexOf("/");
    return this.scene.lookup.byNode.get(key.slice(0, at))?.node.devices[Number(key.slice(at + 1))] ?? null;
  }
}

/** A picture of more than is seen, so that panning only moves it. */
interface Picture {
  canvas: HTMLCanvasElement;
  view: View;
}

/** What a picture has beyond each edge of the view. */
const BEYOND = 128;

/** Draws a scene on a canvas whenever it is told that something changed, at most once a frame. */
export class Painter {
  view: View = FIT;
  size: Size = { width: 0, height: 0 };
  private frame = 0;
  private overview: HTMLCanvasElement | null = null;
  private picture: Picture | null = null;
  private isCurrent = false;
  private readonly watchers = new Set<(view: View) => void>();

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private map: MapScene,
  ) {
    void document.fonts?.ready.then(() => {
      forgetWidths();
      this.dirty();
    });
  }

  get current(): MapScene {
    return this.map;
  }

  show(map: MapScene, size: Size): void {
    const { pinned, focused, selected } = this.map.scene;
    if (map !== this.map) {
      const again = (device: Device | null) => map.find(device?.key);
      map.scene.pinned = again(pinned);
      map.scene.focused = again(focused);
      map.scene.selected = new Set([...selected].map(again).filter((each) => each !== null));
      if (map.scene.layout.deviceWidth !== this.map.scene.layout.deviceWidth) this.view = FIT;
    }
    this.map = map;
    this.size = size;
    this.overview = null;
    for (const each of this.watchers) each(this.view);
    const ratio = devicePixelRatio || 1;
    const width = Math.round(size.width * ratio);
    const height = Math.round(size.height * ratio);
    if (this.canvas.width !== width || this.canvas.height !== height) {
      this.canvas.width = width;
      this.canvas.height = height;
      this.canvas.style.height = `${size.height}px`;
    }
    this.dirty();
  }

  /** Called when another part is seen. */
  watch(watcher: (view: View) => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** What is drawn has changed. */
  dirty(): void {
    this.isCurrent = false;
    this.schedule();
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
  }

  private schedule(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    this.frame = 0;
    const context = this.canvas.getContext("2d");
    if (context === null || this.size.width === 0) return;
    const ratio = devicePixelRatio || 1;
    if (this.view.scale === 1) {
      this.picture = null;
      draw(context, this.map.scene, this.view, this.size, ratio);
    } else this.paintPicture(context, this.pictureOf(ratio), ratio);
    drawGroupNames(context, this.map.scene, this.view, this.size);
  }

  private paintPicture(context: CanvasRenderingContext2D, { canvas, view }: Picture, ratio: number): void {
    const { scale, x, y } = this.view;
    const left = Math.round((x - view.x) * scale * ratio);
    const top = Math.round((y - view.y) * scale * ratio);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(canvas, -left, -top);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  /** The last picture, if it still shows all that is seen; else a new one around the view. */
  private pictureOf(ratio: number): Picture {
    const { scale, x, y } = this.view;
    const last = this.picture;
    if (last !== null && this.isCurrent && last.view.scale === scale) {
      const right = (x - last.view.x) * scale;
      const down = (y - last.view.y) * scale;
      if (right >= 0 && down >= 0 && right <= 2 * BEYOND && down <= 2 * BEYOND) return last;
    }
    const canvas = last?.canvas ?? document.createElement("canvas");
    const size = { width: this.size.width + 2 * BEYOND, height: this.size.height + 2 * BEYOND };
    const width = Math.round(size.width * ratio);
    const height = Math.round(size.height * ratio);
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const view = { scale, x: x - BEYOND / scale, y: y - BEYOND / scale };
    draw(canvas.getContext("2d")!, this.map.scene, view, size, ratio);
    this.picture = { canvas, view };
    this.isCurrent = true;
    return this.picture;
  }

  private look(view: View): void {
    if (view.x === this.view.x && view.y === this.view.y && view.scale === this.view.scale) return;
    this.view = view;
    this.schedule();
    for (const each of this.watchers) each(view);
  }

  at(x: number, y: number): Device | null {
    return this.map.scene.lookup.at(...toLayout(this.view, x, y));
  }

  zoom(factor: number, at = { x: this.size.width / 2, y: this.size.height / 2 }): void {
    this.look(zoomed(this.view, factor, at, this.size, this.map.scene.layout));
  }

  pan(dx: number, dy: number): void {
    this.look(panned(this.view, dx, dy, this.size, this.map.scene.layout));
  }

  fit(): void {
    this.look(FIT);
  }

  /** Puts a point of the layout into the middle. */
  center(x: number, y: number): void {
    const sight = seen(this.view, this.size);
    this.look(
      panned({ ...this.view, x: x - sight.width / 2, y: y - sight.height / 2 }, 0, 0, this.size, this.map.scene.layout),
    );
  }

  reveal(device: Device): void {
    const place = this.map.scene.lookup.byNode.get(device.node.key);
    if (place === undefined) return;
    const box = boxOf(this.map.scene.layout, place, device.index);
    this.look(showing(this.view, box, this.size, this.map.scene.layout));
  }

  devicesIn(x: number, y: number, width: number, height: number): Device[] {
    const [left, top] = toLayout(this.view, x, y);
    const box = { x: left, y: top, width: width / this.view.scale, height: height / this.view.scale };
    return this.map.scene.lookup.devicesIn(box);
  }

  /** All of the map in small, with a frame around what is seen. Drawn once for each scene. */
  drawOverview(canvas: HTMLCanvasElement, width: number, height: number): void {
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    if (context === null) return;
    if (this.overview?.width !== canvas.width) this.overview = this.smallPicture(canvas);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(this.overview, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const factor = width / this.size.width;
    const sight = seen(this.view, this.size);
    context.strokeStyle = this.map.scene.look.text;
    context.lineWidth = 1.5;
    context.strokeRect(
      (sight.x + MARGIN) * factor,
      (sight.y + MARGIN) * factor,
      sight.width * factor - 1,
      sight.height * factor - 1,
    );
  }

  /** In the size that it is shown in: to make it smaller for each frame would cost more than the frame. */
  private smallPicture({ width, height }: Size): HTMLCanvasElement {
    const large = document.createElement("canvas");
    large.width = Math.round(this.size.width);
    large.height = Math.round(this.size.height);
    draw(large.getContext("2d")!, this.map.scene, FIT, this.size, 1);
    const small = document.createElement("canvas");
    small.width = width;
    small.height = height;
    small.getContext("2d")!.drawImage(large, 0, 0, width, height);
    return small;
  }
}
