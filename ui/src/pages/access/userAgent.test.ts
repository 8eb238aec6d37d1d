import { expect, it } from "vitest";
import { clientName } from "./userAgent";

it("names browsers although they claim to be others", () => {
  const end = "AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36";
  expect(clientName(`Mozilla/5.0 (X11; Linux x86_64) ${end}`)).toBe("Chrome, Linux");
  expect(clientName(`Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${end} Edg/130.0.0.0`)).toBe("Edge, Windows");
  expect(clientName("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Version/17.0 Safari/604.1")).toBe(
    "Safari, iOS",
  );
});

it("leaves other programs as they are", () => {
  expect(clientName("runai/1.2")).toBe("runai/1.2");
  expect(clientName("")).toBe("");
});
