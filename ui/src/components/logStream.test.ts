import { expect, it } from "vitest";
import { PieceReader } from "./logStream";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (pieces: Uint8Array[]) => pieces.map((each) => new TextDecoder().decode(each)).join("");

it("reads pieces wherever the stream was cut", () => {
  const stream = bytes("6 6\nab\ncd\n12 6\nef\ngh\nend\n");
  for (let size = 1; size < stream.length; size += 1) {
    const reader = new PieceReader();
    let found = "";
    for (let at = 0; at < stream.length; at += size) found += text(reader.read(stream.subarray(at, at + size)));
    expect(found).toBe("ab\ncd\nef\ngh\n");
    expect(reader.offset).toBe(12);
    expect(reader.isOver).toBe(true);
  }
});

it("goes on after the last whole piece", () => {
  const reader = new PieceReader();
  reader.read(bytes("6 6\nab\ncd\n12 6\nef"));
  expect(reader.offset).toBe(6);
});
