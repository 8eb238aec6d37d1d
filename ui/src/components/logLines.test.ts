import { describe, expect, it } from "vitest";
import { columnsOf, plainLine, SPANS_MAX, spansOf, stamped } from "./logLines";

describe("plain lines", () => {
  it("lose colours, titles and moves of the cursor", () => {
    expect(plainLine("\x1b[31mred\x1b[0m and \x1b]0;title\x07more\x1b[2K")).toBe("red and more");
    expect(plainLine("\x1b(Bx\x00y")).toBe("xy");
  });
  it("show the last state of a progress bar", () => {
    expect(plainLine("10%\r50%\r100%")).toBe("100%");
    expect(plainLine("windows\r")).toBe("windows");
  });
  it("never contain markup of their own making", () => {
    expect(plainLine("<script>alert(1)</script>")).toBe("<script>alert(1)</script>");
  });
});

describe("spans", () => {
  it("carry colour and weight until they are reset", () => {
    expect(spansOf("a\x1b[1;31mb\x1b[0mc")).toEqual([
      { words: "a", colour: null, bold: false },
      { words: "b", colour: "red", bold: true },
      { words: "c", colour: null, bold: false },
    ]);
  });
  it("skip colours by number", () => {
    expect(spansOf("\x1b[38;5;196mx\x1b[38;2;1;2;31my")).toEqual([
      { words: "x", colour: null, bold: false },
      { words: "y", colour: null, bold: false },
    ]);
  });
});

it("times stand apart from the line", () => {
  expect(stamped("2026-11-18T00:13:36.607Z line 2")).toEqual(["2026-11-18T00:13:36.607Z", "line 2"]);
  expect(stamped("2026-11-18T00:13:36.607Z a\r2026-11-18T00:13:37.000Z b")).toEqual(["2026-11-18T00:13:37.000Z", "b"]);
  expect(stamped("none")).toEqual([null, "none"]);
});

it("wide characters take two columns", () => {
  expect(columnsOf("ab")).toBe(2);
  expect(columnsOf("漢字")).toBe(4);
});

it("shows the whole of a line with thousands of colours, in few pieces", () => {
  const spans = spansOf("\x1b[31ma\x1b[32mb".repeat(6000));
  expect(spans.length).toBeLessThanOrEqual(SPANS_MAX + 1);
  expect(spans.map((each) => each.words).join("")).toBe("ab".repeat(6000));
});
