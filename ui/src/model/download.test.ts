import { expect, it } from "vitest";
import { blobOf, csvOf } from "./download";

it("quotes what CSV needs quoted, and defuses what a spreadsheet would run", () => {
  const rows = [
    ['say "hi", all', 1.5, null],
    ["=HYPERLINK(1)", -2, "two\nlines"],
  ];
  expect(csvOf(["a", "b", "c"], rows)).toBe(
    'a,b,c\r\n"say ""hi"", all",1.5,\r\n' + '\'=HYPERLINK(1),-2,"two\nlines"\r\n',
  );
});

it("makes a file of a picture without fetching it", async () => {
  const blob = blobOf("data:image/png;base64,iVBORw0KGgo=");
  expect(blob.type).toBe("image/png");
  expect([...new Uint8Array(await blob.arrayBuffer())]).toEqual([137, 80, 78, 71, 13, 10, 26, 10]);
});
