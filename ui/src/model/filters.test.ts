import { describe, expect, it } from "vitest";
import { filterBy, parseFilter, readListSearch, searchOf, stateOf, writeFilter } from "./filters";

describe("filters", () => {
  it("are written in the address as the API writes them", () => {
    for (const written of ["phase==Pending", "allocatedGPU>=0.5", "name=@a=b", "name=^x,y"])
      expect(writeFilter(parseFilter(written)!)).toBe(written);
  });

  it("are left out when they are none", () => {
    expect(parseFilter("phase")).toBeNull();
    expect(parseFilter("==Pending")).toBeNull();
    expect(readListSearch({ f: ["phase==Running", "<script>", 7] })).toEqual({ f: ["phase==Running"] });
  });

  it("escape the comma that separates them", () => {
    expect(filterBy([parseFilter("name==a,b")!, parseFilter("phase==Running")!])).toBe("name==a\\,b,phase==Running");
    expect(filterBy([])).toBeUndefined();
  });
});

describe("the state of a list", () => {
  it("comes back from the address as it was", () => {
    const state = {
      search: "b-5",
      filters: [parseFilter("phase==Pending")!],
      sort: "createdAt",
      descending: true,
      page: 3,
      size: 100,
      columns: ["name", "phase"],
    };
    expect(stateOf(readListSearch(searchOf(state) as Record<string, unknown>))).toEqual(state);
  });

  it("has no page and size that are not offered", () => {
    const state = stateOf(readListSearch({ page: -2, size: 1_000_000, sort: 7 }));
    expect(state).toMatchObject({ page: 1, size: 50, sort: null });
  });

  it("takes a number in the address for the text that was typed", () => {
    expect(readListSearch({ q: 42 })).toEqual({ q: "42" });
  });
});
