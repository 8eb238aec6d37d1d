import { expect, it } from "vitest";
import { colourOfSlot, fnv1a, SLOTS, slotsOf } from "./projectColours";

it("hashes as FNV-1a does", () => {
  expect([fnv1a(""), fnv1a("a"), fnv1a("foobar")]).toEqual([0x811c9dc5, 0xe40c292c, 0xbf9cf968]);
});

it("gives twenty projects twenty slots, and never changes those that were given", () => {
  const names = Array.from({ length: SLOTS }, (_, number) => `team-${number}`);
  const all = slotsOf(names);
  expect(new Set(all.values()).size).toBe(SLOTS);
  for (const [name, slot] of slotsOf(names.slice(0, 7))) expect(all.get(name)).toBe(slot);
});

it("has a colour for each slot in both schemes, and grey for none", () => {
  const colours = Array.from({ length: SLOTS }, (_, slot) => colourOfSlot(slot, "light"));
  expect(new Set(colours).size).toBe(SLOTS);
  expect(colourOfSlot(undefined, "dark")).toMatch(/^#/);
});
