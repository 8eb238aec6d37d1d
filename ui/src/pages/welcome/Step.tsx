import { IconCheck } from "@tabler/icons-react";
import clsx from "clsx";
import type { ReactNode } from "react";
import { text } from "@/text/welcome";
import classes from "./Welcome.module.css";

interface Props {
  number: number;
  title: string;
  isDone: boolean;
  /** The one to do now. */
  isCurrent: boolean;
  aside?: ReactNode;
  children: ReactNode;
}

/** One of the steps, with a tick when it is done. */
export function Step({ number, title, isDone, isCurrent, aside, children }: Props) {
  return (
    <li className={clsx(classes.step, isCurrent && classes.current)} data-step={number} data-done={isDone}>
      <span className={clsx(classes.number, isDone && classes.ticked)} aria-hidden="true">
        {isDone ? <IconCheck size={16} stroke={2.4} /> : number}
      </span>
      <div className={classes.content}>
        <div className={classes.stepHead}>
          <h2 className={classes.stepTitle} aria-label={text.stepOf(number, title, isDone)}>
            {title}
          </h2>
          {aside}
        </div>
        {children}
      </div>
    </li>
  );
}
