/** The twenty colours of projects. The server stores which slot a project has, so that all pages and reports agree. */

const LIGHT =
  "#5B4FC7 #A2389A #66680A #0E7490 #8A5A12 #B02A5E #2563C9 #B3500A #0A7A70 #8146C6 #173F73 #5E2B10 #2B7D2F #7A1240 #2E3138 #3D1FA3 #7A6450 #64748B #064E3B #561A6B".split(
    " ",
  );
const DARK =
  "#9E9DFF #DF86D6 #ADB06F #73B6CE #CDA26F #F382A3 #75ABFF #E89266 #73BAB1 #BD91FD #A7CDFF #F5BCA2 #77D077 #FCBDCE #E3E4E8 #BDBFFF #AD937C #8793A5 #9AEBCD #E7BAFA".split(
    " ",
  );

export const SLOTS = 20;
export const OTHER = { light: "#8A929E", dark: "#7B8694" };
const STEP = 7;

/** FNV-1a over the UTF-8 bytes, 32 bits. */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

/** Slots for users and nodes, in the given order. Those of projects are stored by the server. */
export function slotsOf(names: readonly string[]): Map<string, number> {
  const taken = new Set<number>();
  const slots = new Map<string, number>();
  for (const name of names) {
    let slot = fnv1a(name) % SLOTS;
    for (let tries = 0; taken.has(slot) && tries < SLOTS; tries++) slot = (slot + STEP) % SLOTS;
    taken.add(slot);
    slots.set(name, slot);
  }
  return slots;
}

export function colourOfSlot(slot: number | undefined, scheme: "light" | "dark"): string {
  const colours = scheme === "dark" ? DARK : LIGHT;
  return (slot === undefined ? undefined : colours[slot % SLOTS]) ?? OTHER[scheme];
}
