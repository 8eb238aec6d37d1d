import { useElementSize } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { useProjectColour } from "@/api/queries";
import { Card } from "@/components/Card";
import { useNow } from "@/components/Moment";
import { waitQuery } from "@/components/whyQuery";
import { moment } from "@/model/format";
import { ENDED, isWaiting } from "@/model/status";
import { text } from "@/text/workload";
import { expectedEnd } from "./expectedEnd";
import { livesQuery, measuredQuery, type Workload } from "./queries";
import { TimelineChart } from "./TimelineChart";
import { lanesOf, lastEnd, rangeOf } from "./timeline";
import classes from "./Workload.module.css";

const words = text.timeline;
const clockOf = (at: number) => moment(new Date(at).toISOString());
const names = {
  life: words.life,
  waits: words.waits,
  waitsUntil: (at: number) => words.waitsUntil(clockOf(at)),
  endsAt: (at: number) => words.endsAt(clockOf(at)),
  thisOne: words.thisOne,
  pod: words.pod,
};
/** Nothing moves visibly faster. */
const TICK_MS = 5000;

/** Its lives and waits along the time, with what is expected, and the decisions as sentences. */
export function TimelineCard({ workload, decisions }: { workload: Workload; decisions: Schema<"Decision">[] }) {
  const lives = useQuery(livesQuery(workload.id)).data;
  const wait = useQuery({ ...waitQuery(workload.id), enabled: isWaiting(workload) }).data;
  const measured = useQuery({ ...measuredQuery(workload.id), enabled: workload.phase === "Running" }).data;
  const tick = Math.floor(useNow() / TICK_MS) * TICK_MS;
  const colour = useProjectColour()(workload.projectName);
  const { ref, width } = useElementSize();
  if (lives === undefined || lives.length === 0) return null;
  const now = Math.max(tick, lastEnd(lives)); // what has ended lies before now
  const { deadlineSeconds } = (workload.spec ?? {}) as { deadlineSeconds?: number };
  const end = expectedEnd(
    { startedAt: workload.startedAt, deadlineSeconds, progressPercent: measured?.total?.progressPercent },
    now,
  );
  const start = isWaiting(workload) ? wait?.expectedStart?.expectedAt : null;
  const expected = {
    startAt: start ? Date.parse(start) : null,
    endAt: ENDED.includes(workload.phase) ? null : (end.at ?? end.limitAt),
  };
  const { lanes, rest } = lanesOf(workload.name, lives, decisions, expected, now, names);
  return (
    <Card title={words.title} note={words.note} aside={<Legend />}>
      <div ref={ref}>
        {width > 0 && (
          <TimelineChart
            lanes={lanes}
            range={rangeOf(lanes, now)}
            now={now}
            width={width}
            colour={colour}
            label={words.label(workload.name)}
          />
        )}
      </div>
      {rest > 0 && <p className={classes.hint}>{words.morePods(rest)}</p>}
      {decisions.length > 0 && (
        <ol className={classes.sentences}>
          {decisions.slice(-6).map((each) => (
            <li key={each.id}>
              <time dateTime={each.at}>{moment(each.at)}</time>
              <span>
                <strong>{text.events.kinds[each.kind] ?? each.kind}</strong>
                {`: ${each.message}`}
              </span>
            </li>
          ))}
        </ol>
      )}
    </Card>
  );
}

function Legend() {
  const entries: [string | undefined, string][] = [
    [classes.swatchRuns, words.inQuota],
    [classes.swatchOver, words.over],
    [classes.swatchWaits, words.waits],
    [classes.swatchExpected, words.expected],
    [classes.swatchMark, words.takenBack],
  ];
  return (
    <ul className={classes.legend}>
      {entries.map(([swatch, name]) => (
        <li key={name}>
          <span className={swatch} aria-hidden="true" />
          {name}
        </li>
      ))}
    </ul>
  );
}
