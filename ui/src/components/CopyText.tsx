import { ActionIcon, CopyButton, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { text } from "@/text/frame";
import classes from "./CopyText.module.css";

export function CopyIcon({ value, label }: { value: string; label?: string }) {
  return (
    <CopyButton value={value} timeout={1500}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? text.shared.copied : (label ?? text.shared.copy)}>
          <ActionIcon onClick={copy} variant="subtle" color="gray" size="sm" aria-label={label ?? text.shared.copy}>
            {copied ? <IconCheck size={16} /> : <IconCopy size={16} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

/** Beyond this it is a file, whose lines may break anywhere. */
const WORDS_MAX = 400;

/** Lines break between words only, not after the hyphens of a flag; a word that is longer than a line still breaks. */
function wholeWords(code: string): ReactNode {
  const parts = code.split(/(\s+)/);
  if (parts.length > WORDS_MAX) return code;
  return parts.map((each, number) =>
    /\S-/.test(each) || each.startsWith("-") ? (
      <span key={number} className={classes.word}>
        {each}
      </span>
    ) : (
      each
    ),
  );
}

/** A command or configuration that is meant to be copied. */
export function CodeBlock({ children, label }: { children: string; label?: string }) {
  return (
    <div className={classes.block}>
      <pre className={classes.code} tabIndex={0}>
        <code>{wholeWords(children)}</code>
      </pre>
      <div className={classes.copy}>
        <CopyIcon value={children} {...(label === undefined ? {} : { label })} />
      </div>
    </div>
  );
}
