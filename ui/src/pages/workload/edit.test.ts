import { describe, expect, it } from "vitest";
import { argumentsOf, changesOf, durationText, formErrors, formOf, pairsOf, secondsOf } from "./edit";

const workload = {
  priorityClassName: "train",
  preemptible: true,
  spec: {
    image: "ubuntu",
    compute: { gpu: "2", cpuCoreRequest: 4 },
    labels: { team: "a" },
    environmentVariables: [
      { name: "A", value: "1" },
      { name: "TOKEN", credential: { name: "hf", key: "token" } },
    ],
  },
};

describe("times", () => {
  it("are read and written", () => {
    expect(["90m", "1h30m", "2d", "45", "", "soon"].map(secondsOf)).toEqual([5400, 5400, 172_800, 45, undefined, null]);
    expect([5400, 7200, 86_400, 61].map(durationText)).toEqual(["90m", "2h", "1d", "61s"]);
  });
});

describe("changes", () => {
  const form = formOf(workload);
  it("are only what differs", () => {
    expect(changesOf(form, { ...form }, workload.spec)).toEqual({});
    expect(changesOf(form, { ...form, deadline: "2h", backoffLimit: 3 }, workload.spec)).toEqual({
      deadlineSeconds: 7200,
      backoffLimit: 3,
    });
  });
  it("keep the rest of what is replaced as a whole", () => {
    expect(changesOf(form, { ...form, gpu: "1" }, workload.spec)).toEqual({ compute: { gpu: "1", cpuCoreRequest: 4 } });
    expect(changesOf(form, { ...form, environment: "A=2" }, workload.spec)).toEqual({
      environmentVariables: [
        { name: "TOKEN", credential: { name: "hf", key: "token" } },
        { name: "A", value: "2" },
      ],
    });
  });
  it("can take a limit away", () => {
    const limited = formOf({ ...workload, spec: { ...workload.spec, deadlineSeconds: 60 } });
    expect(changesOf(limited, { ...limited, deadline: "" }, workload.spec)).toEqual({ deadlineSeconds: null });
  });
});

it("finds what is no pair", () => {
  expect(pairsOf("a=b=c\n d = e")).toEqual({ a: "b=c", d: " e" });
  expect(formErrors({ ...formOf(workload), labels: "nothing" }).labels).toContain("nothing");
});

it("keeps arguments that are no single line", () => {
  const args = ["bash", "-c", "echo 1\necho 2", "", " x", '"quoted"'];
  expect(argumentsOf(formOf({ ...workload, spec: { args } }).args)).toEqual(args);
});
