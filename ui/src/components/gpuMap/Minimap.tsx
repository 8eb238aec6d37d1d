import { ActionIcon } from "@mantine/core";
import { IconArrowsMinimize, IconMinus, IconPlus } from "@tabler/icons-react";
import { useEffect, useRef } from "react";
import { text } from "@/text/map";
import classes from "./GpuCanvas.module.css";
import type { Painter } from "./scene";

const WIDTH = 160;

/** Where the view is on the whole map. A click goes there. */
export function Minimap({ painter }: { painter: Painter }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const height = Math.round((WIDTH * painter.size.height) / Math.max(1, painter.size.width));
  useEffect(() => {
    const show = () => {
      if (canvas.current !== null) painter.drawOverview(canvas.current, WIDTH, height);
    };
    show();
    return painter.watch(show);
  }, [painter, height]);
  const go = (event: React.PointerEvent<HTMLCanvasElement>) => {
    if (event.buttons === 0 && event.type === "pointermove") return;
    const box = event.currentTarget.getBoundingClientRect();
    const factor = painter.size.width / WIDTH;
    painter.center((event.clientX - box.left) * factor, (event.clientY - box.top) * factor);
  };
  return (
    <canvas
      ref={canvas}
      className={classes.minimap}
      style={{ width: WIDTH, height }}
      onPointerDown={go}
      onPointerMove={go}
      role="img"
      aria-label={text.minimap}
    />
  );
}

export function ZoomButtons({ painter, isZoomed }: { painter: Painter; isZoomed: boolean }) {
  return (
    <div className={classes.zoom}>
      <ActionIcon size={30} onClick={() => painter.zoom(1.6)} aria-label={text.zoomIn} title={text.zoomIn}>
        <IconPlus size={16} />
      </ActionIcon>
      {isZoomed && (
        <>
          <ActionIcon size={30} onClick={() => painter.zoom(1 / 1.6)} aria-label={text.zoomOut} title={text.zoomOut}>
            <IconMinus size={16} />
          </ActionIcon>
          <ActionIcon size={30} onClick={() => painter.fit()} aria-label={text.fit} title={text.fit}>
            <IconArrowsMinimize size={16} />
          </ActionIcon>
        </>
      )}
    </div>
  );
}
