import { expect, it } from "vitest";
import { submitSearch } from "../whatIf/steps";
import { withGiven } from "./clone";
import { emptyDraft } from "./drafts";

it("is filled with the job that was tried in What if", () => {
  const search = submitSearch({ name: "big", project: "vision", gpus: "4", pods: "3" });
  expect(search).toEqual({ kind: "distributed", name: "big", project: "vision", gpu: "4", workers: "2" });
  const draft = withGiven(emptyDraft("distributed"), search);
  expect(draft).toMatchObject({ name: "big", isNameSuggested: false });
  expect(draft.spec).toMatchObject({ compute: { gpu: "4" }, numWorkers: 2 });
});

it("leaves the GPUs to a template", () => {
  const draft = withGiven(emptyDraft("training"), { template: "standard" });
  expect(draft.spec.template).toBe("standard");
  expect(draft.spec.compute ?? {}).not.toHaveProperty("gpu");
  expect(draft.isNameSuggested).toBe(true);
});
