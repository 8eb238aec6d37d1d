import { IconAlertTriangle, IconCheck } from "@tabler/icons-react";
import { text } from "@/text/audit";
import classes from "./Audit.module.css";

/** Whether a request succeeded: shape and word. */
export function Result({ result }: { result: string }) {
  const isGood = result === "Succeeded";
  return (
    <span className={isGood ? classes.good : classes.bad}>
      {isGood ? <IconCheck size={14} aria-hidden="true" /> : <IconAlertTriangle size={14} aria-hidden="true" />}
      {isGood ? text.succeeded : result === "Failed" ? text.failed : result}
    </span>
  );
}

export function actionWord(action: string): string {
  return text.actions[action] ?? action;
}
