import { describe, expect, it } from "vitest";
import { addressOf, freeQuota, notebookRequest, progressOf } from "./notebook";

describe("the first notebook", () => {
  it("is what the command submits for --jupyter at the gateway", () => {
    expect(notebookRequest("notebook", "demo", "half", "secret")).toMatchObject({
      projectId: "demo",
      spec: {
        image: "jupyter/base-notebook",
        compute: { gpu: "0.5" },
        ports: [{ container: 8888, serviceType: "Ingress" }],
        environmentVariables: [{ name: "JUPYTER_TOKEN", value: "secret" }],
      },
    });
  });

  it("is ready when it runs and has an address, not before", () => {
    expect(progressOf({ phase: "Pending", currentNodes: [], urls: [] })).toMatchObject({
      placed: "now",
      ready: "later",
    });
    expect(progressOf({ phase: "Initializing", currentNodes: ["a"], urls: [] })).toMatchObject({ image: "now" });
    expect(progressOf({ phase: "Running", currentNodes: ["a"], urls: [] })).toMatchObject({
      image: "done",
      ready: "now",
    });
    expect(progressOf({ phase: "Running", currentNodes: ["a"], urls: ["http://x/"] }).ready).toBe("done");
  });

  it("opens web addresses only, with its token", () => {
    const spec = { environmentVariables: [{ name: "JUPYTER_TOKEN", value: "a b" }] };
    expect(addressOf({ urls: ["http://localhost:8088/nb-8888"], spec })).toBe(
      "http://localhost:8088/nb-8888?token=a+b",
    );
    expect(addressOf({ urls: ["javascript:alert(1)"], spec })).toBeNull();
    expect(addressOf({ urls: [], spec })).toBeNull();
    expect(addressOf({ urls: ["https://tools/nb"] })).toBe("https://tools/nb");
  });

  it("offers a first project what is in no quota", () => {
    expect(freeQuota(16, [2])).toBe(14);
    expect(freeQuota(16, [20])).toBe(0);
    expect(freeQuota(16, [null])).toBe(0);
    expect(freeQuota(16, [])).toBe(16);
  });
});
