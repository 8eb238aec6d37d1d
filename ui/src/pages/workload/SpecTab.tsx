import { Button, Table } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { lazy, Suspense, useMemo } from "react";
import { stringify } from "yaml";
import { Card } from "@/components/Card";
import { CodeBlock, CopyIcon } from "@/components/CopyText";
import { Loading } from "@/components/states";
import { saveText } from "@/model/download";
import { text } from "@/text/workload";
import type { Workload } from "./queries";
import classes from "./Workload.module.css";

const YamlView = lazy(() => import("./YamlView").then((found) => ({ default: found.YamlView })));
const words = text.spec;

/** What can be submitted again: name, project, type and spec. */
export function yamlOf(workload: Workload): string {
  return stringify(
    { name: workload.name, projectId: workload.projectId, type: workload.type, spec: workload.spec ?? {} },
    { lineWidth: 100 },
  );
}

function valueAt(spec: unknown, path: string): string {
  let value = spec;
  for (const part of path.split("."))
    value = typeof value === "object" && value !== null ? (value as Record<string, unknown>)[part] : undefined;
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function SpecTab({ workload }: { workload: Workload }) {
  const yaml = useMemo(() => yamlOf(workload), [workload]);
  const origins = Object.entries(workload.valueOrigins ?? {});
  return (
    <>
      <Card
        title={words.yaml}
        note={words.yamlNote}
        flush
        aside={
          <>
            <CopyIcon value={yaml} label={words.copy} />
            <Button
              size="compact-xs"
              leftSection={<IconDownload size={12} />}
              onClick={() => saveText(`${workload.name}.yaml`, yaml, "application/yaml")}
            >
              {words.download}
            </Button>
          </>
        }
      >
        <Suspense fallback={<Loading height={240} />}>
          <YamlView value={yaml} label={words.yaml} />
        </Suspense>
      </Card>
      <Card title={words.command}>
        {workload.commandLine === "" ? (
          <p className={classes.hint}>{words.noCommand}</p>
        ) : (
          <CodeBlock>{workload.commandLine}</CodeBlock>
        )}
      </Card>
      <Card title={words.origins} note={words.originsNote} flush={origins.length > 0}>
        {origins.length === 0 ? (
          <p className={classes.hint}>{words.noOrigins}</p>
        ) : (
          <Table.ScrollContainer minWidth={480}>
            <Table fz="sm">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{words.field}</Table.Th>
                  <Table.Th>{words.value}</Table.Th>
                  <Table.Th>{words.origin}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {origins.map(([field, origin]) => (
                  <Table.Tr key={field}>
                    <Table.Td>{field}</Table.Td>
                    <Table.Td>{valueAt(workload.spec, field)}</Table.Td>
                    <Table.Td>{origin}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Card>
    </>
  );
}
