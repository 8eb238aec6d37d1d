import { beforeEach, expect, it } from "vitest";
import { draftKey, forgetDrafts, kept } from "./draftStore";

beforeEach(() => localStorage.clear());

it("keeps the drafts of two users of one browser apart", () => {
  kept.write(draftKey("ann", "training"), "secret of ann");
  expect(kept.read(draftKey("bob", "training"))).toBeNull();
  expect(kept.read(draftKey("ann", "training"))).toBe("secret of ann");
});

it("leaves no draft to the next person, and everything else as it is", () => {
  localStorage.setItem("fairpool.draft.training", "from an earlier release");
  localStorage.setItem("fairpool.cluster", "one");
  kept.write(draftKey("ann", "training"), "secret of ann");
  forgetDrafts();
  expect(Object.keys(localStorage)).toEqual(["fairpool.cluster"]);
});
