import { ActionIcon } from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconInfoCircle, IconX } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { text } from "@/text/frame";
import classes from "./Notice.module.css";

const ICONS = { good: IconCheck, bad: IconAlertTriangle, careful: IconAlertTriangle, plain: IconInfoCircle };

interface Props {
  tone: keyof typeof ICONS;
  title?: ReactNode;
  onClose?: () => void;
  children?: ReactNode;
}

/** A result or a warning that stays on the page: shape, words, and a tint. */
export function Notice({ tone, title, onClose, children }: Props) {
  const Icon = ICONS[tone];
  return (
    <div className={classes.notice} data-tone={tone} role={tone === "bad" ? "alert" : "status"}>
      <Icon size={18} className={classes.icon} aria-hidden="true" />
      <div className={classes.words}>
        {title !== undefined && <strong className={classes.title}>{title}</strong>}
        {children}
      </div>
      {onClose && (
        <ActionIcon variant="subtle" color="gray" size="sm" onClick={onClose} aria-label={text.shared.close}>
          <IconX size={16} />
        </ActionIcon>
      )}
    </div>
  );
}
