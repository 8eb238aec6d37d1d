import { describe, expect, it } from "vitest";
import { operations, subscribed } from "./subscriptions";

const events = (...types: string[]) => [{ category: "workload", types }];
const own = { id: "1", events: events("failed"), channels: ["email"] };
const shared = { id: "2", events: events("finished"), channels: ["email", "webhook:ci"] };

describe("subscriptions", () => {
  it("adds up what several say about a channel", () => {
    expect([...subscribed([own, shared], "email")].sort()).toEqual(["failed", "finished"]);
    expect([...subscribed([own, shared], "webhook:ci")]).toEqual(["finished"]);
  });
  it("makes one for a channel that has none", () => {
    expect(operations([], "email", ["started"])).toEqual([
      { method: "POST", events: events("started"), channels: ["email"] },
    ]);
  });
  it("takes the channel out of those that others use, and leaves these alone", () => {
    expect(operations([own, shared], "email", ["failed", "finished"])).toEqual([
      { method: "PUT", id: "1", events: events("failed", "finished"), channels: ["email"] },
      { method: "PUT", id: "2", events: events("finished"), channels: ["webhook:ci"] },
    ]);
  });
  it("deletes what is left without events", () => {
    expect(operations([own, { ...own, id: "3" }], "email", [])).toEqual([
      { method: "DELETE", id: "1" },
      { method: "DELETE", id: "3" },
    ]);
    expect(operations([], "email", [])).toEqual([]);
  });
});
