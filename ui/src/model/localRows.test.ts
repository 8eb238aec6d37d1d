import { describe, expect, it } from "vitest";
import { stateOf } from "./filters";
import { localRows } from "./localRows";

const rows = [
  { name: "ann", roles: ["viewer"], last: "2026-11-02" },
  { name: "bob", roles: ["editor", "viewer"], last: null },
  { name: "Cid", roles: [], last: "2026-11-01" },
];
const fields = {
  name: (each: (typeof rows)[0]) => each.name,
  roles: (each: (typeof rows)[0]) => each.roles,
  last: (each: (typeof rows)[0]) => each.last,
};
const names = (search: Parameters<typeof stateOf>[0]) =>
  localRows(rows, stateOf(search), fields).rows.map((each) => each.name);

describe("localRows", () => {
  it("searches in all fields, without case", () => {
    expect(names({ q: "cID" })).toEqual(["Cid"]);
    expect(names({ q: "editor" })).toEqual(["bob"]);
  });
  it("filters by any value of a list, and by none of them", () => {
    expect(names({ f: ["roles==viewer"] })).toEqual(["ann", "bob"]);
    expect(names({ f: ["roles!=viewer"] })).toEqual(["Cid"]);
  });
  it("puts what is not known last in both orders", () => {
    expect(names({ sort: "last" })).toEqual(["Cid", "ann", "bob"]);
    expect(names({ sort: "-last" })).toEqual(["ann", "Cid", "bob"]);
  });
  it("counts all that fit, and shows one page", () => {
    const many = Array.from({ length: 60 }, (_, at) => ({ name: `n${at}`, roles: [], last: null }));
    const second = localRows(many, stateOf({ page: 2 }), fields);
    expect(second.total).toBe(60);
    expect(second.rows.map((each) => each.name)).toEqual(many.slice(50).map((each) => each.name));
  });
});
