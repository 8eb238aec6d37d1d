/** Colours of lines and bars that are no project's. Canvas knows no CSS variables, so these are the tokens' values. */
export interface ChartColours {
  accent: string;
  running: string;
  pending: string;
  completed: string;
  failed: string;
  stopped: string;
  over: string;
  text: string;
  line: string;
  surface: string;
}

const LIGHT: ChartColours = {
  accent: "#3446C4",
  running: "#0B7560",
  pending: "#8F5200",
  completed: "#1B5FA6",
  failed: "#B3261E",
  stopped: "#565F6D",
  over: "#7439AE",
  text: "#5E6775",
  line: "#DADFE6",
  surface: "#FFFFFF",
};
const DARK: ChartColours = {
  accent: "#98A6FF",
  running: "#45CDAA",
  pending: "#F0B255",
  completed: "#80B9F5",
  failed: "#FF8F86",
  stopped: "#A5AFBC",
  over: "#CBA3F5",
  text: "#939DAB",
  line: "#2C333D",
  surface: "#171B21",
};

export const chartColours = (scheme: "light" | "dark"): ChartColours => (scheme === "dark" ? DARK : LIGHT);
