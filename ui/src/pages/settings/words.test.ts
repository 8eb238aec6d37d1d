import { describe, expect, it } from "vitest";
import { labelParts, sectionOf, timeWords, valueWords } from "./words";

describe("words of settings", () => {
  it("says times in the units that people use", () => {
    expect(timeWords(36_000)).toBe("10 hours");
    expect(timeWords(90)).toBe("1 minute 30 seconds");
    expect(timeWords(2_592_000)).toBe("30 days");
    expect(timeWords(0)).toBe("0 seconds");
  });
  it("takes the unit from the name", () => {
    expect(valueWords({ key: "security.browserIdleMinutes" }, 480)).toBe("8 hours");
    expect(valueWords({ key: "uploads.maxMebibytes" }, 20_480)).toBe("20.0 GiB");
    expect(valueWords({ key: "security.passwordMinLength" }, 8)).toBe("8");
  });
  it("says that zero is no limit only where it is", () => {
    expect(valueWords({ key: "security.sessionIdleSeconds" }, 0)).toBe("no limit");
    expect(valueWords({ key: "workload.evictionGracePeriodSeconds" }, 0)).toBe("0 seconds");
  });
  it("says what is empty and what is switched", () => {
    expect(valueWords({ key: "security.signInProvider" }, "")).toBe("none");
    expect(valueWords({ key: "department.use" }, true)).toBe("On");
  });
  it("puts every category into a section", () => {
    expect(sectionOf({ key: "department.use", category: "General" })).toBe("resources");
    expect(sectionOf({ key: "uploads.maxFiles", category: "Uploads" })).toBe("workloads");
    expect(sectionOf({ key: "security.x", category: "Security" })).toBe("security");
  });
  it("takes the unit off the name", () => {
    expect(labelParts("Token lifetime, in seconds")).toEqual({ name: "Token lifetime", unit: "seconds" });
    expect(labelParts("Kinds of characters in a password").unit).toBeNull();
  });
});
