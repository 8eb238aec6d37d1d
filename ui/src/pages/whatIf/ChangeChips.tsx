import { ActionIcon, Button } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { fieldsOf, type OneChange, parseSetting } from "@/model/whatIf";
import { text } from "@/text/whatIf";
import classes from "./WhatIf.module.css";

interface Props {
  changes: OneChange[];
  /** The planner's words, one for each change; none while they are not known. */
  sentences: string[];
  nameOfJob: (id: string) => string;
  onRemove: (change: OneChange) => void;
  onClear: () => void;
}

export function ChangeChips({ changes, sentences, nameOfJob, onRemove, onClear }: Props) {
  return (
    <div className={classes.chips}>
      {changes.map((each, number) => {
        const isJob = each.list === "withoutJob"; // the planner knows its id only
        const words = (isJob ? undefined : sentences[number]) ?? wordsOf(each, nameOfJob);
        return (
          <span key={`${each.list} ${each.text}`} className={classes.chip} title={words}>
            <span>{words}</span>
            <ActionIcon
              variant="subtle"
              color="gray"
              size="sm"
              radius="xl"
              onClick={() => onRemove(each)}
              aria-label={text.remove(words)}
            >
              <IconX size={14} />
            </ActionIcon>
          </span>
        );
      })}
      {changes.length > 1 && (
        <Button variant="subtle" size="compact-xs" onClick={onClear}>
          {text.clear}
        </Button>
      )}
    </div>
  );
}

export function wordsOf({ list, text: written }: OneChange, nameOfJob: (id: string) => string): string {
  const { words } = text;
  switch (list) {
    case "set": {
      const setting = parseSetting(written);
      return setting === null ? written : words.set(setting.noun, setting.name, setting.key, setting.value);
    }
    case "addJob":
      return words.addJob(fieldsOf(written).name ?? written);
    case "addNode":
      return words.addNode(fieldsOf(written).name ?? written);
    case "withoutNode":
      return words.withoutNode(written);
    case "withoutJob":
      return words.withoutJob(nameOfJob(written));
    case "later":
      return words.later(written);
  }
}
