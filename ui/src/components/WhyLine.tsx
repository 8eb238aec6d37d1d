import clsx from "clsx";
import type { Schema } from "@/api/client";
import { moment } from "@/model/format";
import { text } from "@/text/why";
import classes from "./WhyLine.module.css";

interface Props {
  cause?: Schema<"WaitCause"> | null | undefined;
  /** The reason of work that waits for something else than the scheduler: dependency, back-off. */
  reason: string;
  /** The server's sentence, with figures. */
  message: string;
  expectedStart?: string | null;
  /** At most two lines. */
  clamp?: boolean;
  /** One line, cut off where it is too long. */
  single?: boolean;
}

/** With a capital, unless it begins with a name such as dgx1-2 or gpu-node. */
function begun(message: string): string {
  return /^(non-)?[a-z]+(\s|$)/.test(message) ? message[0]!.toUpperCase() + message.slice(1) : message;
}

/** Why something waits, in one or two lines: the cause, then the figures, then until when. */
export function WhyLine({ cause, reason, message, expectedStart, clamp = false, single = false }: Props) {
  const title = text.causes[cause?.cause ?? ""] ?? text.reasons[reason];
  return (
    <span
      className={clsx(single ? classes.single : clamp ? classes.clamped : classes.why)}
      title={clamp || single ? message : undefined}
    >
      {title !== undefined && <strong>{title}. </strong>}
      <span>{begun(message)}</span>
      {expectedStart && <strong>{` ${text.expected(moment(expectedStart))}`}</strong>}
    </span>
  );
}
