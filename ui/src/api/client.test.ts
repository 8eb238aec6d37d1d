import { afterEach, expect, it, vi } from "vitest";
import { text } from "@/text/frame";
import { ApiError, api, fetchText, got } from "./client";
import { WritesHeld, writes } from "./writes";

afterEach(() => {
  writes.hold(false);
  vi.unstubAllGlobals();
});

it("says that changes are held, not that the server is away", async () => {
  writes.hold(true);
  await expect(
    got(api.POST("/api/v1/org-unit/projects", { body: {} as never, baseUrl: "http://server" })),
  ).rejects.toThrow(WritesHeld);
  await expect(fetchText("/api/v1/me/preferences", { method: "PUT" })).rejects.toThrow(WritesHeld);
});

it("says that the server is away", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
  await expect(fetchText("/api/v1/me")).rejects.toThrow(new ApiError(0, { detail: text.unreachable }, null));
});
