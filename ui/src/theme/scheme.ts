import { useComputedColorScheme } from "@mantine/core";

/** Light or dark, as shown now. */
export function useScheme(): "light" | "dark" {
  return useComputedColorScheme("light");
}
