import { IconAlertTriangle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import classes from "./Warning.module.css";

/** Something that is allowed and that the reader should know. */
export function Warning({ children, state }: { children: ReactNode; state?: string }) {
  return (
    <div className={classes.warning} role="status" data-state={state}>
      <IconAlertTriangle size={16} aria-hidden="true" />
      <div>{children}</div>
    </div>
  );
}
