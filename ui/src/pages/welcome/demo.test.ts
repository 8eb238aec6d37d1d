import { describe, expect, it } from "vitest";
import { text } from "@/text/welcome";
import { DEMO_CHAPTERS, DEMO_GPUS, DEMO_PROJECTS, DEMO_STEPS, type DemoJob, demoRequest, projectOf } from "./demo";

const isJob = (step: object): step is DemoJob => "submit" in step;

describe("the demo", () => {
  it("gives all GPUs as quota, and fills them in its first chapter", () => {
    expect(DEMO_PROJECTS.reduce((sum, each) => sum + each.quota, 0)).toBe(DEMO_GPUS);
    const asked = DEMO_CHAPTERS[0]!.filter(isJob).reduce((sum, each) => sum + each.gpus, 0);
    expect(asked).toBeCloseTo(DEMO_GPUS);
  });

  it("has 19 jobs and words for each chapter", () => {
    expect(DEMO_CHAPTERS.flat().filter(isJob)).toHaveLength(19);
    expect(text.demo.chapters).toHaveLength(DEMO_CHAPTERS.length + 1);
    expect(DEMO_STEPS).toBe(21);
  });

  it("deletes only jobs that it has submitted", () => {
    const names = DEMO_CHAPTERS.flat()
      .filter(isJob)
      .map((each) => each.submit);
    for (const step of DEMO_CHAPTERS.flat())
      if ("delete" in step) expect(names).toEqual(expect.arrayContaining([...step.delete, ...step.untilRunning]));
  });

  it("submits interactive work as workspaces, in the project of its letter", () => {
    expect(projectOf("b-2-g04")).toBe("team-b");
    const { path, body } = demoRequest({ submit: "b-2-g04", gpus: 0.4, isInteractive: true, untilRunning: true });
    expect(path).toBe("/api/v1/workloads/workspaces");
    expect(body).toMatchObject({ projectId: "team-b", spec: { compute: { gpu: "0.4" } } });
  });
});
