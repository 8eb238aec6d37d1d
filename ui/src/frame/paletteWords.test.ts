import { expect, test } from "vitest";
import { filtersOf, matches, understood } from "./paletteWords";

const PROJECTS = ["team-a", "team-b", "vision"];
const of = (typed: string) => understood(typed, PROJECTS, "ann@example.com");

test.each([
  ["a name", "b-5-gg", { words: "b-5-gg" }],
  ["a verb", "suspend a-1-g", { words: "a-1-g", workloadVerb: "suspend" }],
  ["another word for it", "Stop  a-1-g ", { words: "a-1-g", workloadVerb: "suspend" }],
  ["a question", "why b-5-gg?", { words: "b-5-gg", workloadVerb: "why" }],
  ["a node", "drain dgx1-2", { words: "dgx1-2", nodeVerb: "drain" }],
  ["a list", "waiting in team-b", { words: "waiting in team-b", list: { phase: "Pending", project: "team-b" } }],
  [
    "the beginning of a project",
    "failed of vis",
    { words: "failed of vis", list: { phase: "Failed", project: "vision" } },
  ],
  ["one's own", "mine", { words: "mine", list: { user: "ann@example.com" } }],
  ["a project that two names begin like", "waiting in team", { words: "waiting in team" }],
  ["a name that begins like a phase", "failed-nightly", { words: "failed-nightly" }],
  ["a phase and a name", "running bert", { words: "running bert" }],
])("%s", (_, typed, expected) => {
  expect(of(typed)).toEqual(expected);
});

test("a list becomes filters of its address", () => {
  expect(filtersOf({ phase: "Pending", project: "team-b", user: "bob" })).toEqual([
    "phase==Pending",
    "projectName==team-b",
    "submittedBy==bob",
  ]);
});

test("words match in any order", () => {
  expect(matches("Node pools", "pool node")).toBe(true);
  expect(matches("Node pools", "node map")).toBe(false);
});
