import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { isLike, setPreference } from "./preferences";

let stored: Record<string, unknown>;

beforeEach(() => {
  stored = {};
  vi.stubGlobal("fetch", (_path: string, init: RequestInit) => {
    if (init.method === "PUT") stored = JSON.parse(String(init.body)) as Record<string, unknown>;
    return Promise.resolve(new Response(JSON.stringify(stored)));
  });
});

afterEach(() => vi.unstubAllGlobals());

it("changes one thing, also before the others are known here", async () => {
  stored = { "views.workloads": [{ name: "mine", search: {} }] };
  await setPreference(new QueryClient(), "density", "compact");
  expect(stored).toEqual({ "views.workloads": [{ name: "mine", search: {} }], density: "compact" });
});

it("keeps what another tab has changed, and what was changed a moment ago", async () => {
  const queries = new QueryClient();
  queries.setQueryData(["preferences"], { density: "roomy" });
  stored = { density: "roomy", "welcome.done": true };
  await Promise.all([setPreference(queries, "density", "normal"), setPreference(queries, "bell.idleFrom", 8)]);
  expect(stored).toEqual({ density: "normal", "welcome.done": true, "bell.idleFrom": 8 });
});

it("takes no value of another kind", () => {
  expect(isLike([{ name: "mine" }], [])).toBe(true);
  for (const each of ["views", 5, { length: 1 }, null, undefined]) expect(isLike(each, [])).toBe(false);
  expect(isLike([], {})).toBe(false);
  expect(isLike("4", 4)).toBe(false);
});
