import { useEffect, useState } from "react";
import { clock, exactMoment, moment } from "@/model/format";

const tellers = new Set<(now: number) => void>();
let ticking: ReturnType<typeof setInterval> | null = null;

/** The time, once a second, from one timer for the whole page. */
export function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    tellers.add(setNow);
    ticking ??= setInterval(() => {
      const at = Date.now();
      for (const each of tellers) each(at);
    }, 1000);
    return () => {
      tellers.delete(setNow);
      if (tellers.size === 0 && ticking !== null) {
        clearInterval(ticking);
        ticking = null;
      }
    };
  }, []);
  return now;
}

/** A moment in the reader's zone; hover gives it exactly. */
export function Moment({ at }: { at: string | null | undefined }) {
  return (
    <time dateTime={at ?? undefined} title={exactMoment(at)}>
      {moment(at)}
    </time>
  );
}

/** The time since a moment, as it passes; or until `to`. */
export function Elapsed({ from, to }: { from: string | null | undefined; to?: string | null | undefined }) {
  return to ? <>{clock(from ? Date.parse(to) - Date.parse(from) : null)}</> : <Ticking from={from} />;
}

function Ticking({ from }: { from: string | null | undefined }) {
  const now = useNow();
  return <>{clock(from ? now - Date.parse(from) : null)}</>;
}
