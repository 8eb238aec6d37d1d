import { StatusIcon } from "@/components/StatusBadge";
import { shown } from "@/model/status";
import classes from "./tables.module.css";

/** The title of a card, and how many there are of what it lists. */
export function CountedTitle({ title, count, phase }: { title: string; count: number; phase: string }) {
  const { tone } = shown(phase);
  return (
    <span className={classes.titled}>
      {title}
      {count > 0 && (
        <span className={classes.chip} style={{ color: `var(--${tone})`, background: `var(--${tone}-tint)` }}>
          <StatusIcon phase={phase} />
          {count}
        </span>
      )}
    </span>
  );
}
