/** Both plans side by side: counts, bars, and who fares differently. */
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Schema } from "@/api/client";
import { useProjectColour } from "@/api/queries";
import { Card } from "@/components/Card";
import { FairShareBar, ShareLegend } from "@/components/FairShareBar";
import { ProjectName } from "@/components/ProjectName";
import { gpus, UNKNOWN } from "@/model/format";
import { type Changes, type Effect, type Fate, fatesOf } from "@/model/whatIf";
import { text } from "@/text/whatIf";
import { barsOf, type PairOfBars, scaleOf } from "./figures";
import type { Live } from "./live";
import classes from "./WhatIf.module.css";

interface Props {
  answer: Schema<"WhatIfAnswer">;
  changes: Changes;
  live: Live;
  isCurrent: boolean;
}

export function Plans({ answer, changes, live, isCurrent }: Props) {
  const bars = useMemo(() => barsOf(answer, changes, live), [answer, changes, live]);
  const fates = useMemo(() => fatesOf(answer.groups), [answer]);
  return (
    <div className={isCurrent ? classes.plans : `${classes.plans} ${classes.stale}`} aria-busy={!isCurrent}>
      <div className={classes.stack}>
        <Counts answer={answer} />
        <Fates fates={fates} known={new Set(live.jobs.map((each) => each.id))} />
      </div>
      <Bars bars={bars} />
    </div>
  );
}

const COUNTS = ["starting", "promised", "preempted", "waiting"] as const;

function Counts({ answer }: { answer: Schema<"WhatIfAnswer"> }) {
  const words = text.counts;
  return (
    <Card title={words.title} flush>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{words.plan}</th>
            <th scope="col" className={classes.right}>
              {words.before}
            </th>
            <th scope="col" className={classes.right}>
              {words.after}
            </th>
          </tr>
        </thead>
        <tbody>
          {COUNTS.map((each) => (
            <tr key={each} className={answer.original[each] === answer.changed[each] ? undefined : classes.changed}>
              <td>{words[each]}</td>
              <td className={classes.right}>{answer.original[each]}</td>
              <td className={classes.right}>{answer.changed[each]}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

function Bars({ bars }: { bars: PairOfBars[] }) {
  const colour = useProjectColour();
  const scale = scaleOf(bars);
  const words = text.bars;
  return (
    <Card title={words.title} note={words.note}>
      {bars.map(({ project, before, after }) => (
        <div key={project} className={classes.bar}>
          <div className={classes.names}>
            <ProjectName project={project} />
            <span className={held(before) === held(after) ? classes.figures : `${classes.figures} ${classes.changed}`}>
              {words.change(gpus(held(before)), gpus(held(after)))}
            </span>
          </div>
          {([words.before, words.after] as const).map((label) => {
            const share = label === words.before ? before : after;
            return (
              <div key={label} className={classes.pair}>
                <span>{label}</span>
                {share === null ? UNKNOWN : <FairShareBar share={share} colour={colour(project)} scale={scale} />}
              </div>
            );
          })}
        </div>
      ))}
      <ShareLegend />
      <p className={classes.hint}>{text.noMaps}</p>
    </Card>
  );
}

const held = (share: PairOfBars["before"]): number | null => (share === null ? null : share.inQuota + share.overQuota);

function Fates({ fates, known }: { fates: Fate[]; known: ReadonlySet<string> }) {
  const words = text.fates;
  const effects = [...new Set(fates.map((each) => each.effect))];
  return (
    <Card title={words.title}>
      {fates.length === 0 && <p className={classes.hint}>{text.same}</p>}
      {effects.map((effect: Effect) => {
        const some = fates.filter((each) => each.effect === effect);
        return (
          <section key={effect}>
            <h3 className={classes.heading}>{words.effects[effect](some.length)}</h3>
            <ul className={classes.fates}>
              {some.map((each) => (
                <li key={each.id}>
                  {known.has(each.id) ? (
                    <Link to="/workloads/$workload" params={{ workload: each.id }}>
                      {each.workload}
                    </Link>
                  ) : (
                    <strong>{each.workload}</strong>
                  )}{" "}
                  {each.after ?? words.absent}
                  <div className={classes.was}>
                    <ProjectName project={each.project} plain />
                    {each.before !== null && <span>{words.was(each.before)}</span>}
                  </div>
                </li>
              ))}
            </ul>
          </section>
        );
      })}
    </Card>
  );
}
