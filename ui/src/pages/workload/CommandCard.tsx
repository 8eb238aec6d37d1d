import { Card } from "@/components/Card";
import { CodeBlock } from "@/components/CopyText";
import { text } from "@/text/workload";
import type { Workload } from "./queries";
import classes from "./Workload.module.css";

export function CommandCard({ workload }: { workload: Workload }) {
  return (
    <Card title={text.command.title}>
      {workload.commandLine === "" ? (
        <p className={classes.hint}>{text.command.none}</p>
      ) : (
        <>
          <CodeBlock>{workload.commandLine}</CodeBlock>
          <p className={classes.hint}>{text.command.hint}</p>
        </>
      )}
    </Card>
  );
}
