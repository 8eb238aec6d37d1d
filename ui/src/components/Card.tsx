import clsx from "clsx";
import type { ReactNode } from "react";
import classes from "./Card.module.css";

interface Props {
  title?: ReactNode;
  note?: ReactNode;
  /** To the right of the title: links, legend. */
  aside?: ReactNode;
  /** Without padding, for tables. */
  flush?: boolean;
  className?: string;
  label?: string;
  children: ReactNode;
}

/** A part of a page with a title. */
export function Card({ title, note, aside, flush = false, className, label, children }: Props) {
  return (
    <section
      className={clsx(classes.card, className)}
      aria-label={label ?? (typeof title === "string" ? title : undefined)}
    >
      {title !== undefined && (
        <header className={classes.header}>
          <h2 className={classes.title}>{title}</h2>
          {note !== undefined && <span className={classes.note}>{note}</span>}
          {aside !== undefined && <div className={classes.aside}>{aside}</div>}
        </header>
      )}
      <div className={flush ? classes.flush : classes.body}>{children}</div>
    </section>
  );
}
