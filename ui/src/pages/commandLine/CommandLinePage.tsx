import { Button, Group, SegmentedControl, Select } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { api, call, got } from "@/api/client";
import { projectsQuery, useMay } from "@/api/queries";
import { Card } from "@/components/Card";
import { CodeBlock, CopyIcon } from "@/components/CopyText";
import { Notice } from "@/components/Notice";
import { Page } from "@/components/Page";
import { bytes, UNKNOWN } from "@/model/format";
import { text } from "@/text/commandLine";
import classes from "./CommandLine.module.css";
import { Help } from "./Help";
import { isOwnMachine, SYSTEMS, type System, systemOf } from "./system";

/** The version stands in the description of the API. */
function useVersion(): string {
  const query = useQuery({
    queryKey: ["version"],
    queryFn: async () => (await call<{ info: { version: string } }>("GET", "/api/openapi.json")).info.version,
  });
  return query.data ?? UNKNOWN;
}

function Block({ label, children }: { label?: string; children: string }) {
  return (
    <div>
      {label !== undefined && <p className={classes.label}>{label}</p>}
      <CodeBlock {...(label === undefined ? {} : { label })}>{children}</CodeBlock>
    </div>
  );
}

export function CommandLinePage() {
  const version = useVersion();
  const isAdministrator = useMay("user.read");
  return (
    <Page title={text.title} lead={text.lead}>
      <div className={classes.columns}>
        <div className={classes.parts}>
          <Install />
          <SignIn />
        </div>
        <div className={classes.parts}>
          <FirstCommands />
          <Completion />
          {isAdministrator && (
            <Card title={text.admin.title} note={text.admin.version(version)}>
              <Parts>
                <p className={classes.hint}>{text.admin.hint}</p>
                <Block>{text.admin.text}</Block>
              </Parts>
            </Card>
          )}
          <Help version={version} />
        </div>
      </div>
    </Page>
  );
}

function Parts({ children }: { children: ReactNode }) {
  return <div className={classes.parts}>{children}</div>;
}

function Install() {
  const { install: words } = text;
  const [system, setSystem] = useState<System>(() => systemOf(navigator.userAgent));
  const shell = system === "macos" ? "~/.zshrc" : "~/.bashrc";
  return (
    <Card title={words.title} note={words.note}>
      <Parts>
        <SegmentedControl
          aria-label={words.choose}
          value={system}
          onChange={(next) => setSystem(next as System)}
          data={SYSTEMS.map((value) => ({ value, label: words.systems[value] }))}
        />
        {system === "container" ? (
          <>
            <p className={classes.hint}>{words.containerHint}</p>
            <Block label={words.image}>{text.imageText}</Block>
            <Block label={words.wrapper}>{text.wrapperText}</Block>
          </>
        ) : (
          <>
            <FromServer system={system} shell={shell} />
            <Block label={words.source}>{text.sourceText(shell)}</Block>
            <p className={classes.hint}>{words.path}</p>
          </>
        )}
      </Parts>
    </Card>
  );
}

/** The package is the same on both systems; only the file that sets the path differs. */
function FromServer({ system, shell }: { system: "macos" | "linux"; shell: string }) {
  const { install: words } = text;
  const found = useQuery({ queryKey: ["command-package"], queryFn: () => got(api.GET("/api/v1/command-package")) });
  if (found.isError) return <Notice tone="plain">{words.noPackage}</Notice>;
  if (found.data === undefined) return null;
  const { name, path, sha256, sizeBytes } = found.data;
  return (
    <>
      <p className={classes.hint}>{words.hint}</p>
      <Block label={words.wheel}>{text.wheelText(`${location.origin}${path}#sha256=${sha256}`, shell)}</Block>
      <Group gap="sm">
        <Button component="a" href={path} download={name} size="xs" leftSection={<IconDownload size={14} />}>
          {words.download(words.systems[system])}
        </Button>
        <span className={classes.hint}>{words.file(name, bytes(sizeBytes))}</span>
      </Group>
      <div className={classes.checksum}>
        <span className={classes.hint}>
          {words.checksum} <code>{sha256}</code>
        </span>
        <CopyIcon value={sha256} label={words.copyChecksum} />
      </div>
    </>
  );
}

function SignIn() {
  const { signIn: words } = text;
  const address = location.origin;
  return (
    <Card
      title={words.title}
      note={words.hint}
      aside={
        <Link to="/profile" search={{ tab: "keys" } as never}>
          {words.keys}
        </Link>
      }
    >
      <Parts>
        {isOwnMachine(location.hostname) && <Notice tone="plain">{words.local}</Notice>}
        <Block>{words.command(address)}</Block>
        <Block label={words.device}>{words.deviceCommand(address)}</Block>
        <Block label={words.script}>{words.scriptCommand(address)}</Block>
      </Parts>
    </Card>
  );
}

function FirstCommands() {
  const { first: words } = text;
  const projects = useQuery(projectsQuery).data ?? [];
  const [chosen, setChosen] = useState<string | null>(null);
  const project = chosen ?? projects[0]?.name ?? null;
  return (
    <Card title={words.title}>
      <Parts>
        {projects.length > 1 && (
          <Select
            label={words.project}
            maw={280}
            searchable
            allowDeselect={false}
            data={projects.map((each) => each.name)}
            value={project}
            onChange={setChosen}
          />
        )}
        <Block>{words.text(project ?? "PROJECT")}</Block>
        <p className={classes.hint}>{words.help}</p>
      </Parts>
    </Card>
  );
}

const SHELLS = ["bash", "zsh", "fish"] as const;

function Completion() {
  const { completion: words } = text;
  const [shell, setShell] = useState<(typeof SHELLS)[number]>(
    systemOf(navigator.userAgent) === "macos" ? "zsh" : "bash",
  );
  return (
    <Card title={words.title} note={words.note}>
      <Parts>
        <div>
          <SegmentedControl
            aria-label={words.choose}
            value={shell}
            onChange={(next) => setShell(next as typeof shell)}
            data={SHELLS.map((value) => ({ value, label: words.shells[value] }))}
          />
        </div>
        <Block>{words[shell]}</Block>
      </Parts>
    </Card>
  );
}
