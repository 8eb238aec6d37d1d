import { Button, Tabs } from "@mantine/core";
import { stringify } from "yaml";
import { Card } from "@/components/Card";
import { CodeBlock } from "@/components/CopyText";
import { saveText } from "@/model/download";
import type { Fields } from "@/model/paths";
import { commandLineOf, type Draft, jobFileOf } from "@/model/submission";
import { text } from "@/text/submit";
import classes from "./Submit.module.css";

/** The same workload as a command and as a job file: the page teaches what it does. */
export function CommandCard({ draft, more }: { draft: Draft; more: Fields }) {
  const command = commandLineOf(draft, more);
  const file = stringify(jobFileOf(draft, more), { lineWidth: 0 });
  return (
    <Card title={text.command.title}>
      <Tabs defaultValue="command" variant="outline" keepMounted={false}>
        <Tabs.List mb="xs">
          <Tabs.Tab value="command">{text.command.tabs.command}</Tabs.Tab>
          <Tabs.Tab value="file">{text.command.tabs.file}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="command">
          <CodeBlock>{command.text}</CodeBlock>
          {command.unsaid.length > 0 && <p className={classes.hint}>{text.command.unsaid(command.unsaid)}</p>}
        </Tabs.Panel>
        <Tabs.Panel value="file">
          <CodeBlock>{file}</CodeBlock>
          <p className={classes.hint}>{text.command.file}</p>
          <Button size="compact-sm" onClick={() => saveText("job.yaml", file, "application/yaml")}>
            {text.command.download}
          </Button>
        </Tabs.Panel>
      </Tabs>
    </Card>
  );
}
