const BROWSERS: [RegExp, string][] = [
  [/Edg\//, "Edge"],
  [/OPR\//, "Opera"],
  [/Firefox\//, "Firefox"],
  [/Chrome\//, "Chrome"],
  [/Safari\//, "Safari"],
];
const SYSTEMS: [RegExp, string][] = [
  [/Windows/, "Windows"],
  [/iPhone|iPad/, "iOS"],
  [/Mac OS X|Macintosh/, "macOS"],
  [/Android/, "Android"],
  [/Linux/, "Linux"],
];

/** A program by the name that it gives itself; a browser with its system. The order matters: most claim to be others too. */
export function clientName(agent: string): string {
  if (!agent.startsWith("Mozilla/")) return agent;
  const browser = BROWSERS.find(([form]) => form.test(agent))?.[1];
  const system = SYSTEMS.find(([form]) => form.test(agent))?.[1];
  if (browser === undefined) return agent;
  return system === undefined ? browser : `${browser}, ${system}`;
}
