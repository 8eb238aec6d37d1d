import { describe, expect, it } from "vitest";
import { commandOf, configOf, fileOf, isLoopback, quoted } from "./installFiles";

const EAST = {
  name: "east",
  control: "https://fairpool.example:8443",
  token: "fpc_secret",
  nodes: "",
  runtime: "process",
  data: "/var/lib/fairpool",
  ca: "",
  health: "",
};

describe("the command", () => {
  it("keeps the token out of arguments", () => {
    const command = commandOf(EAST);
    const [, start] = command.split("END\n", 2).length === 2 ? command.split("\nEND\n") : ["", ""];
    expect(start).not.toContain("fpc_secret");
    expect(start).toContain("--token-file east.token");
  });

  it("leaves out what is the default", () => {
    expect(commandOf(EAST)).not.toMatch(/--(nodes|runtime|ca-file|health-listen)/);
    expect(commandOf({ ...EAST, nodes: "2x8:V100-32GB", runtime: "podman" })).toMatch(
      /--nodes 2x8:V100-32GB[\s\S]*--runtime podman/,
    );
  });

  it("quotes what a shell would read otherwise", () => {
    expect(quoted("/srv/it's here")).toBe(`'/srv/it'\\''s here'`);
    expect(commandOf({ ...EAST, data: "$(reboot)" })).toContain("--data '$(reboot)'");
  });
});

describe("the configuration file", () => {
  it("writes strings as TOML does", () => {
    expect(configOf({ ...EAST, data: 'C:\\da"ta' })).toContain('data = "C:\\\\da\\"ta"');
  });

  it("does not hold the token", () => {
    expect(configOf(EAST)).not.toContain("fpc_secret");
    expect(fileOf("unit", EAST).content).not.toContain("fpc_secret");
  });
});

it("knows addresses that other machines cannot reach", () => {
  expect(isLoopback("http://127.0.0.1:8080")).toBe(true);
  expect(isLoopback("http://localhost")).toBe(true);
  expect(isLoopback("https://fairpool.example")).toBe(false);
});
