import type { ReactNode } from "react";
import type { Column } from "./Grid";
import classes from "./rowFacts.module.css";

/** A row on a narrow screen: its first column as title, the others by name; a column without header stands beside the title. */
export function rowFacts<Row>(columns: readonly Column<Row>[], row: Row): ReactNode {
  const [first, ...rest] = columns.filter((each) => !each.optional);
  if (first === undefined) return null;
  const facts = rest.filter((each) => each.key !== "actions");
  const actions = rest.find((each) => each.key === "actions");
  return (
    <div className={classes.row}>
      <div className={classes.head}>
        <strong className={classes.title}>{first.render(row)}</strong>
        {actions?.render(row)}
      </div>
      <dl className={classes.facts}>
        {facts.map((each) => (
          <div key={each.key} className={classes.fact}>
            <dt>{each.header}</dt>
            <dd>{each.render(row)}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
