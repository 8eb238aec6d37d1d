import type { Schema } from "@/api/client";
import { moment } from "@/model/format";
import { text } from "@/text/why";
import classes from "./WhyLine.module.css";

const { start: words } = text;

/** Until when a row waits, below its cause. Nothing while it is not known. */
export function ExpectedStart({ wait }: { wait: Schema<"WorkloadWait"> | undefined }) {
  if (wait === undefined || !wait.waits) return null;
  const start = wait.expectedStart;
  if (start == null)
    return wait.estimate === "no-basis" ? (
      <span className={classes.expected} title={text.noBasisHint}>
        {words.noBasis}
      </span>
    ) : null;
  const names = start.basis.map((each) => text.basis[each] ?? each).join(", ");
  return (
    <span className={classes.expected} title={text.basisOf(names)}>
      <strong>{words.expected(moment(start.expectedAt))}</strong>
      {(start.earliestAt || start.latestAt) &&
        ` ${words.range(start.earliestAt ? moment(start.earliestAt) : null, start.latestAt ? moment(start.latestAt) : null)}`}
    </span>
  );
}
