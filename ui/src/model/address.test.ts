import { expect, it } from "vitest";
import { wordIn } from "./address";

it("takes words and numbers, and nothing that would break a form", () => {
  expect(wordIn("team-a")).toBe("team-a");
  expect(wordIn(5)).toBe("5");
  expect(wordIn(true)).toBe("true");
  for (const each of [{ a: 1 }, ["a"], null, undefined]) expect(wordIn(each)).toBeUndefined();
});
