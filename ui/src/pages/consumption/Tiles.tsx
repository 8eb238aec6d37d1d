import type { Schema } from "@/api/client";
import { percent, UNKNOWN } from "@/model/format";
import { text } from "@/text/consumption";
import { amount, type Column } from "./amounts";
import classes from "./Consumption.module.css";

type Tile = keyof typeof text.tiles;
const TILES = Object.keys(text.tiles) as Tile[];
const PARTS: readonly Column[] = ["gpuHoursUsed", "gpuHoursIdle", "gpuHoursOverQuota", "gpuHoursLost"];

export function Tiles({ amounts }: { amounts: Schema<"UsageAmounts"> }) {
  return (
    <div className={classes.tiles}>
      {TILES.map((each) => (
        <div key={each} className={classes.tile}>
          <div className={classes.label}>{text.tiles[each]}</div>
          <div className={classes.figure}>{amount(amounts, each)}</div>
          <div className={classes.hint}>{hint(amounts, each)}</div>
        </div>
      ))}
    </div>
  );
}

function hint(amounts: Schema<"UsageAmounts">, tile: Tile): string {
  if (amount(amounts, tile) === UNKNOWN) {
    if (tile === "cost") return text.noPrices;
    if (tile === "gpuHoursOverQuota") return text.notAttributed;
  }
  const value = amounts[tile];
  if (PARTS.includes(tile) && typeof value === "number" && amounts.gpuHoursAllocated > 0)
    return (tile === "gpuHoursLost" ? text.lost : text.ofAllocated)(percent((100 * value) / amounts.gpuHoursAllocated));
  return text.hints[tile];
}
