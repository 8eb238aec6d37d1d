export const SYSTEMS = ["macos", "linux", "container"] as const;
export type System = (typeof SYSTEMS)[number];

/** The system of a browser by what it says of itself. */
export function systemOf(agent: string): System {
  if (/Windows|Android|iPhone|iPad/.test(agent)) return "container";
  return /Mac OS X|Macintosh/.test(agent) ? "macos" : "linux";
}

/** Whether an address reaches only the machine that it is on. */
export function isOwnMachine(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\./.test(host);
}
