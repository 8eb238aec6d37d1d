import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const ROOT = `${process.cwd()}/src`;
const sources = readdirSync(ROOT, { recursive: true, encoding: "utf8" }).filter(
  (path) => /\.tsx?$/.test(path) && !/\.test\.tsx?$|schema\.d\.ts$/.test(path),
);
const ASKED = /^(?!.*invalidateQueries).*queryKey: (\[(?:"[^"]*"(?:, )?)+\])/gm;

it("asks each question in one place: two with one key would take each other's answers for their own", () => {
  const places = new Map<string, string[]>();
  for (const path of sources)
    for (const [, key] of readFileSync(`${ROOT}/${path}`, "utf8").matchAll(ASKED))
      places.set(key!, [...(places.get(key!) ?? []), path]);
  expect(places.size).toBeGreaterThan(20);
  expect([...places].filter(([, paths]) => paths.length > 1)).toEqual([]);
});
