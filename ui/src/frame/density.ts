/** How high rows are: 28, 34 or 44 pixels. Rows have 18 pixels of text and a line of one. */
import { useEffect } from "react";
import { usePreference } from "@/api/preferences";

export type Density = "compact" | "normal" | "roomy";
export const DENSITIES: readonly Density[] = ["compact", "normal", "roomy"];
const PADDING: Record<Density, string> = { compact: "4.5px", normal: "7.5px", roomy: "12.5px" };

/** The density in use. Touch screens have roomy rows unless something else was chosen. */
export function useDensity(): [Density, (density: Density) => void] {
  const isTouch = matchMedia("(pointer: coarse)").matches;
  const [chosen, choose] = usePreference<Density>("density", isTouch ? "roomy" : "normal");
  const density = DENSITIES.includes(chosen) ? chosen : "normal";
  useEffect(() => {
    document.documentElement.style.setProperty("--row-padding", PADDING[density]);
  }, [density]);
  return [density, choose];
}
