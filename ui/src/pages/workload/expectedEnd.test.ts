import { expect, it } from "vitest";
import { expectedEnd } from "./expectedEnd";

const START = "2026-11-17T10:00:00Z";
const at = (minutes: number) => Date.parse(START) + minutes * 60_000;

it("follows the pace so far, with an interval", () => {
  const end = expectedEnd({ startedAt: START, deadlineSeconds: null, progressPercent: 50 }, at(30));
  expect(end).toEqual({ limitAt: null, at: at(60), from: at(52.5), to: at(75) });
});

it("never ends after the time limit", () => {
  const end = expectedEnd({ startedAt: START, deadlineSeconds: 40 * 60, progressPercent: 50 }, at(30));
  expect(end.limitAt).toBe(at(40));
  expect(end.at).toBe(at(40));
});

it("says nothing without a basis", () => {
  const nothing = { limitAt: null, at: null, from: null, to: null };
  expect(expectedEnd({ startedAt: START, deadlineSeconds: null, progressPercent: 1 }, at(30))).toEqual(nothing);
  expect(expectedEnd({ startedAt: null, deadlineSeconds: 60, progressPercent: 50 }, at(30))).toEqual(nothing);
});
