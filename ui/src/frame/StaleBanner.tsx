import { IconAlertTriangle } from "@tabler/icons-react";
import { changeStream, useLiveState } from "@/api/stream";
import { moment } from "@/model/format";
import { text } from "@/text/frame";
import classes from "./Shell.module.css";

export function StaleBanner() {
  const state = useLiveState();
  if (state !== "stale") return null;
  const since = new Date(changeStream().since ?? Date.now()).toISOString();
  return (
    <div className={classes.banner} role="alert">
      <IconAlertTriangle size={18} />
      {text.staleBanner(moment(since))}
    </div>
  );
}

/** Whether what is shown is current, in the header. */
export function LiveMark() {
  const state = useLiveState();
  const words = {
    connecting: text.connecting,
    live: text.live,
    "catching-up": text.catchingUp,
    stale: text.stale(moment(new Date(state === "stale" ? (changeStream().since ?? 0) : 0).toISOString())),
  }[state];
  return (
    <span className={classes.live} data-state={state} role="status">
      {words}
    </span>
  );
}
