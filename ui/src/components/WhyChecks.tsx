import { IconCheck, IconCircleDashed, IconCircleMinus } from "@tabler/icons-react";
import clsx from "clsx";
import type { Schema } from "@/api/client";
import { checkFigures } from "@/model/waiting";
import { text } from "@/text/why";
import classes from "./WhyPanel.module.css";

const ICONS = { passed: IconCheck, failed: IconCircleMinus, "not-reached": IconCircleDashed };

/** What the scheduler checks, in its order, with the figures that it compares. */
export function WhyChecks({ checks }: { checks: Schema<"WaitCheck">[] }) {
  return (
    <ol className={classes.checks}>
      {checks.map((each) => {
        const Icon = ICONS[each.state];
        return (
          <li key={each.check} className={clsx(classes.check, classes[`is-${each.state}`])}>
            <Icon size={16} stroke={1.8} aria-label={text.states[each.state]!} role="img" />
            <span className={classes.checkName}>{text.checks[each.check] ?? each.check}</span>
            <span className={classes.checkFigures}>{checkFigures(each)}</span>
          </li>
        );
      })}
    </ol>
  );
}
