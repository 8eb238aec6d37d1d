/** What starts a cluster on its machine: a command, a service, a configuration file. */

export interface Installation {
  name: string;
  control: string;
  token: string;
  /** Empty: the GPUs of the machine. */
  nodes: string;
  runtime: string;
  data: string;
  /** Empty: the authorities that the machine trusts. */
  ca: string;
  /** Empty: the default. */
  health: string;
}

/** A word of a shell command. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

function flags({ control, nodes, runtime, ca, health, data, name }: Installation): [string, string][] {
  const all: [string, string][] = [
    ["control", control],
    ["token-file", `${name}.token`],
    ["data", data],
    ["nodes", nodes],
    ["runtime", runtime === "process" ? "" : runtime],
    ["ca-file", ca],
    ["health-listen", health],
  ];
  return all.filter(([, value]) => value !== "");
}

/** The token goes into a file by a here-document: it is in no argument that other users of the machine could see. */
export function commandOf(installation: Installation): string {
  const file = quoted(`${installation.name}.token`);
  const words = flags(installation).map(([flag, value]) => `    --${flag} ${quoted(value)} \\\n`);
  return `(umask 077 && cat > ${file}) <<'END'\n${installation.token}\nEND\nfairpool cluster \\\n${words.join("")}    --detach\n`;
}

export function configOf(installation: Installation): string {
  const lines = flags(installation).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  return `# ${installation.name}.toml: fairpool cluster --config-file ${installation.name}.toml\n${lines.join("\n")}\nlog-level = "info"\n`;
}

/** Pods outlive the program that started them, so the service manager must not stop them with it. */
export function unitOf({ name }: Installation): string {
  return `# /etc/systemd/system/fairpool-${name}.service
[Unit]
Description=Fairpool cluster ${name}
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=/usr/bin/env fairpool cluster --config-file /etc/fairpool/${name}.toml
Restart=on-failure
RestartSec=5
KillMode=process
LimitNOFILE=8192

[Install]
WantedBy=multi-user.target
`;
}

export type Way = "command" | "unit" | "config";

export function fileOf(way: Way, installation: Installation): { name: string; content: string } {
  const { name } = installation;
  if (way === "unit") return { name: `fairpool-${name}.service`, content: unitOf(installation) };
  if (way === "config") return { name: `${name}.toml`, content: configOf(installation) };
  return { name: `start-${name}.sh`, content: `#!/bin/sh\n${commandOf(installation)}` };
}

/** Whether an address is of this machine only. */
export function isLoopback(address: string): boolean {
  try {
    const { hostname } = new URL(address);
    return hostname === "localhost" || hostname === "[::1]" || /^127\./.test(hostname);
  } catch {
    return false;
  }
}
