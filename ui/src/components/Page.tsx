import type { ReactNode } from "react";
import { useEffect } from "react";
import { text } from "@/text/frame";
import classes from "./Page.module.css";

interface Props {
  title: string;
  /** What the browser's tab says, if not the title. */
  tab?: string;
  /** A sentence below the title. */
  lead?: ReactNode;
  /** Above the title: where this page belongs. */
  trail?: ReactNode;
  /** Beside the title: chips. */
  chips?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

/** Title, lead and actions of a page, and its content. */
export function Page({ title, tab, lead, trail, chips, actions, children }: Props) {
  useEffect(() => {
    document.title = `${tab ?? title} · ${text.product}`;
  }, [title, tab]);
  return (
    <div className={classes.page}>
      <div className={classes.head}>
        <div className={classes.words}>
          {trail !== undefined && <nav className={classes.trail}>{trail}</nav>}
          <div className={classes.titles}>
            <h1 className={classes.title}>{title}</h1>
            {chips}
          </div>
          {lead !== undefined && <p className={classes.lead}>{lead}</p>}
        </div>
        {actions !== undefined && <div className={classes.actions}>{actions}</div>}
      </div>
      {children}
    </div>
  );
}
