/** Three changes to begin with, made from what there is. */
import { Button } from "@mantine/core";
import { Empty } from "@/components/states";
import { quota } from "@/model/format";
import type { OneChange } from "@/model/whatIf";
import { text } from "@/text/whatIf";
import type { Live } from "./live";
import classes from "./WhatIf.module.css";

interface Example {
  words: string;
  change: OneChange;
}

export function examplesOf(live: Live): Example[] {
  const examples: Example[] = [];
  const projects = live.shares.filter((each) => each.kind === "project");
  const waiting = [...projects].sort((a, b) => b.waiting - a.waiting)[0];
  if (waiting !== undefined && waiting.quota != null) {
    const more = waiting.quota + Math.max(2, Math.ceil(waiting.waiting));
    examples.push({
      words: text.examples.quota(waiting.name, quota(more)),
      change: { list: "set", text: `project.${waiting.name}.quota=${more}` },
    });
  }
  const node = live.nodes[0];
  if (node !== undefined)
    examples.push({ words: text.examples.node(node), change: { list: "withoutNode", text: node } });
  const lender = [...projects].sort((a, b) => b.lent - a.lent)[0] ?? projects[0];
  if (lender !== undefined) {
    const gpus = Math.max(1, Math.min(4, Math.floor(lender.quota ?? 4)));
    examples.push({
      words: text.examples.job(lender.name, gpus),
      change: { list: "addJob", text: `name=what-if-1,project=${lender.name},gpus=${gpus}` },
    });
  }
  return examples;
}

export function Examples({ live, onTry }: { live: Live; onTry: (change: OneChange) => void }) {
  const examples = examplesOf(live);
  const hint = live.isLoaded && examples.length === 0 ? text.noExamples : text.noneHint;
  return (
    <Empty
      title={text.none}
      hint={hint}
      action={
        <div className={classes.examples}>
          {examples.map((each) => (
            <Button key={each.words} onClick={() => onTry(each.change)}>
              {each.words}
            </Button>
          ))}
        </div>
      }
    />
  );
}
