import { describe, expect, it } from "vitest";
import { between, bytes, clock, counted, duration, gpus, listed, moment, percent, quota, UNKNOWN } from "./format";

const NOW = new Date(2026, 10, 17, 12, 0, 0).getTime();
const at = (...when: [number, number, number, number, number]) => new Date(...when).toISOString();

describe("figures", () => {
  it("shows what is held with two decimals, and what is unknown as a dash", () => {
    expect([gpus(16), gpus(0.4), gpus(0), gpus(null), gpus(undefined)]).toEqual([
      "16.00",
      "0.40",
      "0.00",
      UNKNOWN,
      UNKNOWN,
    ]);
  });

  it("shows a quota whole where it is whole, and null as unlimited", () => {
    expect([quota(4), quota(2.5), quota(null), quota(undefined)]).toEqual(["4", "2.50", "unlimited", UNKNOWN]);
  });

  it("does not clamp percentages, and shows no value for none", () => {
    expect([percent(150.4), percent(0), percent(null)]).toEqual(["150%", "0%", UNKNOWN]);
  });

  it("counts in the right number", () => {
    expect([counted(1, "GPU"), counted(0, "GPU"), counted(2.5, "GPU")]).toEqual(["1 GPU", "0 GPUs", "2.50 GPUs"]);
  });

  it("shows bytes in binary units", () => {
    expect([bytes(0), bytes(1536), bytes(32 * 2 ** 30), bytes(null)]).toEqual(["0 B", "1.5 KiB", "32.0 GiB", UNKNOWN]);
  });

  it("cuts long lists off with how many more there are", () => {
    expect(listed(["a"])).toBe("a");
    expect(listed(["a", "b", "c"])).toBe("a, b and c");
    expect(listed(["a", "b", "c", "d", "e"])).toBe("a, b and 3 more");
  });
});

describe("times", () => {
  it("shows a time as the command does", () => {
    expect(clock(465_000)).toBe("00:07:45");
    expect(clock(2 * 86_400_000 + 3 * 3_600_000)).toBe("2 d 03:00:00");
    expect(clock(null)).toBe(UNKNOWN);
  });

  it("never shows a negative time, for clocks that differ", () => {
    expect(clock(-5000)).toBe("00:00:00");
  });

  it("says a time in words", () => {
    expect([duration(40_000), duration(17 * 60_000), duration(3_600_000 * 51)]).toEqual(["40 s", "17 min", "2 d 03 h"]);
  });

  it("takes now as the end of what has none", () => {
    expect(between("2026-11-17T10:00:00Z", null, Date.parse("2026-11-17T10:00:30Z"))).toBe(30_000);
    expect(between(null, null, NOW)).toBeNull();
  });

  it("shows a moment as shortly as it is clear", () => {
    expect(moment(at(2026, 10, 17, 11, 9), NOW)).toBe("11:09");
    expect(moment(at(2026, 10, 16, 11, 9), NOW)).toBe("Mon 11:09");
    expect(moment(at(2026, 10, 3, 11, 9), NOW)).toBe("3 Nov 11:09");
    expect(moment(at(2025, 10, 3, 11, 9), NOW)).toBe("3 Nov 2025 11:09");
    expect(moment("nonsense", NOW)).toBe(UNKNOWN);
  });
});
