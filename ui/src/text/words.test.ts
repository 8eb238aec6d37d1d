/** Words that a reader sees stand in `src/text`, so that they can be read, corrected and translated in one place. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";

const SOURCES = join(import.meta.dirname, "..");
/** Attributes whose text is shown or spoken. */
const SPOKEN = new Set([
  "label",
  "title",
  "placeholder",
  "description",
  "aria-label",
  "alt",
  "header",
  "hint",
  "lead",
  "note",
]);
const HAS_WORD = /[A-Za-z]{2,}/;

function sources(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((each) => {
    const path = join(folder, each.name);
    if (each.isDirectory()) return sources(path);
    return each.name.endsWith(".tsx") && !each.name.includes(".test.") ? [path] : [];
  });
}

/** Each with the file and line where it stands. */
function wordsIn(name: string, source: string): string[] {
  const file = ts.createSourceFile(name, source, ts.ScriptTarget.ES2022, true, ts.ScriptKind.TSX);
  const found: string[] = [];
  const note = (node: ts.Node, words: string) => {
    const { line } = file.getLineAndCharacterOfPosition(node.getStart());
    found.push(`${name}:${line + 1}: ${words.trim()}`);
  };
  const visit = (node: ts.Node): void => {
    if (ts.isJsxText(node) && HAS_WORD.test(node.text)) note(node, node.text);
    if (ts.isJsxAttribute(node) && SPOKEN.has(node.name.getText()) && node.initializer) {
      const value = ts.isJsxExpression(node.initializer) ? node.initializer.expression : node.initializer;
      if (value && ts.isStringLiteralLike(value) && HAS_WORD.test(value.text)) note(node, value.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return found;
}

describe("words", () => {
  it("stand in src/text and nowhere else", () => {
    const all = sources(SOURCES).flatMap((path) => wordsIn(path.slice(SOURCES.length + 1), readFileSync(path, "utf8")));
    expect(all).toEqual([]);
  });

  it("would be found", () => {
    const source = '<p title="Some words" label={"Other words"} className="none">More words {name} – 3</p>';
    expect(wordsIn("x.tsx", source)).toEqual(["x.tsx:1: Some words", "x.tsx:1: Other words", "x.tsx:1: More words"]);
  });
});
