import { expect, it } from "vitest";
import { isOwnMachine, systemOf } from "./system";

it("knows the system of a browser", () => {
  expect(systemOf("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)")).toBe("macos");
  expect(systemOf("Mozilla/5.0 (X11; Linux x86_64)")).toBe("linux");
  expect(systemOf("Mozilla/5.0 (Windows NT 10.0)")).toBe("container");
  expect(systemOf("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X)")).toBe("container");
});

it("knows addresses that nobody else reaches", () => {
  expect(isOwnMachine("127.0.0.1")).toBe(true);
  expect(isOwnMachine("localhost")).toBe(true);
  expect(isOwnMachine("fairpool.example.com")).toBe(false);
  expect(isOwnMachine("10.127.0.1")).toBe(false);
});
