import clsx from "clsx";
import { gpus, quota as quotaText } from "@/model/format";
import { text } from "@/text/frame";
import classes from "./FairShareBar.module.css";

export interface ShareFigures {
  quota?: number | null;
  fairShare: number;
  limit?: number | null;
  inQuota: number;
  overQuota: number;
  waiting: number;
  lent: number;
}

interface Props {
  share: ShareFigures;
  colour: string;
  /** GPUs at the right end; the same for all bars of a view. */
  scale: number;
  size?: "row" | "list" | "hero";
  /** Quota and fair share written beside their marks. */
  labels?: boolean;
  /** GPUs that one workload asks for, drawn dashed with its amount. */
  request?: number;
}

const part = (amount: number, scale: number): string => `${Math.min(100, Math.max(0, (100 * amount) / scale))}%`;

/** For screen readers, and as the tooltip: all figures in words. */
export function shareInWords(share: ShareFigures): string {
  const words = [
    `${gpus(share.inQuota + share.overQuota)} of ${text.shared.quota} ${quotaText(share.quota ?? null)}`,
    `${text.shared.fairShare} ${quotaText(share.fairShare)}`,
  ];
  if (share.overQuota > 0) words.push(`${gpus(share.overQuota)} ${text.shared.overQuota}`);
  if (share.waiting > 0) words.push(`${gpus(share.waiting)} ${text.shared.waits}`);
  if (share.lent > 0) words.push(`${gpus(share.lent)} ${text.shared.lent}`);
  return words.join(", ");
}

/** Quota, fair share, held and waiting in one bar, the same everywhere: solid in quota, striped over it, dashed
 * waiting, dotted lent. */
export function FairShareBar({ share, colour, scale, size = "list", labels = false, request }: Props) {
  const held = share.inQuota + share.overQuota;
  const waiting = request ?? share.waiting;
  const top = Math.max(scale, 1e-9);
  const fair = share.fairShare;
  const segment = (from: number, amount: number, kind: string | undefined, key: string) =>
    amount > 0 && (
      <span
        key={key}
        className={clsx(classes.part, kind)}
        style={{ left: part(from, top), width: `max(4px, calc(${part(amount, top)} - 1px))` }}
      >
        {key === "waiting" && request !== undefined && size === "hero" && (
          <span className={classes.amount}>{`+${quotaText(request)}`}</span>
        )}
      </span>
    );
  return (
    <div
      className={clsx(classes.frame, classes[size], labels && classes.labelled)}
      style={{ "--colour": colour } as React.CSSProperties}
      role="img"
      aria-label={shareInWords(share)}
      title={shareInWords(share)}
    >
      <div className={classes.track}>
        {segment(held, share.lent, classes.lent, "lent")}
        {segment(0, share.inQuota, classes.inQuota, "in")}
        {segment(share.inQuota, share.overQuota, classes.over, "over")}
        {segment(held, waiting, classes.waiting, "waiting")}
        {share.limit != null && share.limit <= top && (
          <span className={classes.limit} style={{ left: part(share.limit, top) }} />
        )}
      </div>
      {share.quota != null && (
        <span className={classes.quota} style={{ left: part(share.quota, top) }}>
          {labels && <Label at={share.quota / top}>{`${text.shared.quota} ${quotaText(share.quota)}`}</Label>}
        </span>
      )}
      <span className={classes.fair} style={{ left: part(fair, top) }}>
        {labels && (
          <Label at={fair / top} beside>
            {`${text.shared.fairShare} ${quotaText(fair)}`}
            {held === 0 && share.waiting === 0 ? ` · ${text.shared.asksNothing}` : ""}
          </Label>
        )}
      </span>
    </div>
  );
}

/** Beside or below its mark, turned inwards near the edges so that nothing is cut off. */
function Label({ at, beside = false, children }: { at: number; beside?: boolean; children: React.ReactNode }) {
  const side = beside
    ? at > 0.6
      ? classes.toTheLeft
      : classes.toTheRight
    : at > 0.9
      ? classes.atTheRight
      : at < 0.08
        ? classes.atTheLeft
        : classes.below;
  return <span className={clsx(classes.label, side)}>{children}</span>;
}

/** What the patterns mean. */
export function ShareLegend() {
  const entries: [string | undefined, string][] = [
    [classes.inQuota, text.shared.inQuota],
    [classes.over, text.shared.overQuota],
    [classes.waiting, text.shared.waits],
    [classes.lent, text.shared.lent],
  ];
  return (
    <ul className={classes.legend} style={{ "--colour": "var(--text-3)" } as React.CSSProperties}>
      {entries.map(([kind, words]) => (
        <li key={words}>
          <span className={clsx(classes.swatch, kind)} />
          {words}
        </li>
      ))}
      <li>
        <span className={classes.tick} />
        {text.shared.quota}
      </li>
      <li>
        <span className={classes.triangle} />
        {text.shared.fairShare}
      </li>
    </ul>
  );
}
