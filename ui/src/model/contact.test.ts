import { describe, expect, it } from "vitest";
import { contactLink, contactName, messageLink } from "./contact";

describe("links to support", () => {
  it("are those of pages and mail addresses only", () => {
    for (const link of ["https://help.example.com/gpu", "http://help", "mailto:gpu@example.com"])
      expect(contactLink(link)).toBe(link);
    for (const link of ["javascript:alert(1)", "data:text/html,x", "//evil.example", "", null, undefined])
      expect(contactLink(link)).toBeNull();
  });

  it("are named by their address", () => {
    expect(contactName("mailto:gpu@example.com")).toBe("gpu@example.com");
    expect(contactName("https://help.example.com/gpu/")).toBe("help.example.com/gpu");
  });

  it("take the text along in a mail, and not to a page", () => {
    expect(messageLink("mailto:a@b.c", "x y", "1\n2")).toBe("mailto:a@b.c?subject=x%20y&body=1%0A2");
    expect(messageLink(null, "x", "y")).toBe("mailto:?subject=x&body=y");
    expect(messageLink("https://help.example.com", "x", "y")).toBe("https://help.example.com");
  });
});
