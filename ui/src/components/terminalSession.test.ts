import { expect, it } from "vitest";
import { CHANNEL, endOf, execPath, frame } from "./terminalSession";

it("puts the channel before the bytes", () => {
  expect([...frame(CHANNEL.input, "é")]).toEqual([0, 0xc3, 0xa9]);
  expect([...frame(CHANNEL.size, "{}")]).toEqual([4, 123, 125]);
});

it("reads how a process ended, and survives what it cannot read", () => {
  expect(endOf(new TextEncoder().encode('{"exitCode": 3, "words": ""}'))).toEqual({ exitCode: 3, words: "" });
  expect(endOf(new TextEncoder().encode('{"exitCode": null, "words": "gone"}'))).toEqual({
    exitCode: null,
    words: "gone",
  });
  expect(endOf(new Uint8Array([255]))).toEqual({ exitCode: null, words: "" });
});

it("repeats the command word by word", () => {
  expect(execPath("id", "p-0", ["bash", "-l"])).toBe(
    "/api/v1/workloads/id/exec?command=bash&command=-l&tty=true&pod=p-0",
  );
});
