import { Button } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { devicesQuery, projectsQuery, useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import { Card } from "@/components/Card";
import { StatusIcon } from "@/components/StatusBadge";
import { Failed } from "@/components/states";
import { text } from "@/text/welcome";
import { DEMO_GPUS, DEMO_PROJECTS, DEMO_STEPS } from "./demo";
import { cleanUpDemo, type Demo, isOfDemo, startDemo, stopDemo, useDemo } from "./demoRun";
import classes from "./Welcome.module.css";

const { demo: words } = text;

/** What keeps it from being run; null: nothing. */
function obstacleOf(devices: Schema<"DevicePage"> | undefined, taken: string[]): string | null {
  const simulated = devices?.nodes.filter((each) => each.simulated) ?? [];
  const found = simulated.reduce((sum, each) => sum + each.gpus, 0);
  if (devices === undefined || simulated.length === 0) return words.needsSimulated;
  if (devices.devices !== DEMO_GPUS || found !== DEMO_GPUS) return words.needsGpus(DEMO_GPUS, found);
  if (taken.length > 0) return words.taken(taken);
  const used = simulated.reduce(
    (sum, node) => sum + node.holders.reduce((held, [, milli, on]) => held + (milli * on.length) / 1000, 0),
    0,
  );
  return used > 0 ? words.needsRoom(used) : null;
}

/** The cluster of the simulated nodes. */
function simulatedCluster(devices: Schema<"DevicePage"> | undefined): string | undefined {
  const node = devices?.nodes.find((each) => each.simulated);
  return node === undefined ? undefined : devices?.clusters[node.cluster]?.id;
}

/** Sharing between four teams, played on the real platform and explained. */
export function DemoCard() {
  const demo = useDemo();
  const isHeld = useWritesHeld();
  const mayRun = useMay("project.delete");
  const devices = useQuery(devicesQuery).data as unknown as Schema<"DevicePage"> | undefined;
  const projects = useQuery(projectsQuery).data ?? [];
  const own = projects.filter(isOfDemo).map((each) => each.id);
  const names = DEMO_PROJECTS.map((each) => each.name);
  const taken = projects.filter((each) => names.includes(each.name) && !isOfDemo(each)).map((each) => each.name);
  if (!mayRun) return null;
  const cluster = simulatedCluster(devices);
  const isBusy = demo.state === "running" || demo.state === "cleaning";
  const obstacle = own.length > 0 ? null : obstacleOf(devices, taken);
  const cleanUp = () => void cleanUpDemo(own).then(() => done(words.cleaned));
  return (
    <Card title={words.title} {...(isBusy ? { note: words.step(demo.steps, DEMO_STEPS) } : {})}>
      <div className={classes.content}>
        <p className={classes.fact}>{words.hint}</p>
        {(demo.state !== "idle" || own.length > 0) && demo.state !== "cleaning" && <Chapters demo={demo} />}
        {demo.state === "cleaning" && <p>{words.cleaning}</p>}
        {demo.state === "failed" && <Failed error={demo.error} what={words.failed} />}
        {obstacle !== null && !isBusy && <p className={classes.hint}>{obstacle}</p>}
        <div className={classes.row}>
          {own.length === 0 && !isBusy && (
            <Button onClick={() => void startDemo(cluster)} disabled={isHeld || obstacle !== null}>
              {words.start}
            </Button>
          )}
          {demo.state === "running" && <Button onClick={stopDemo}>{words.stop}</Button>}
          {(demo.state === "running" || own.length > 0) && (
            <Button component={Link} to="/">
              {words.watch}
            </Button>
          )}
          {own.length > 0 && demo.state !== "running" && (
            <Button onClick={cleanUp} disabled={isHeld} loading={demo.state === "cleaning"} title={words.cleanUpHint}>
              {words.cleanUp}
            </Button>
          )}
        </div>
      </div>
    </Card>
  );
}

function Chapters({ demo }: { demo: Demo }) {
  const stateOf = (number: number) => {
    if (demo.state === "idle") return "later";
    if (number < demo.chapter || demo.state === "over") return "done";
    return number === demo.chapter ? "now" : "later";
  };
  return (
    <ol className={classes.chapters}>
      {words.chapters.map((each, number) => {
        const state = stateOf(number);
        return (
          <li key={each.title} className={classes.chapter} data-state={state}>
            <span>
              {state === "done" ? (
                <IconCheck size={16} stroke={2.4} className={classes.ticks} aria-hidden="true" />
              ) : state === "now" && demo.state === "running" ? (
                <StatusIcon phase="Initializing" />
              ) : (
                <span className={classes.dot} aria-hidden="true" />
              )}
            </span>
            <div>
              <h3>{each.title}</h3>
              {state !== "later" && <p>{each.say}</p>}
            </div>
          </li>
        );
      })}
    </ol>
  );
}

/** What the demo is doing, above the overview. */
export function DemoNarration() {
  const demo = useDemo();
  if (demo.state !== "running" && demo.state !== "over") return null;
  const chapter = words.chapters[Math.min(demo.chapter, words.chapters.length - 1)]!;
  return (
    <section className={classes.narration} aria-label={words.running} aria-live="polite">
      <p>
        <strong>{`${chapter.title}. `}</strong>
        {chapter.say}
      </p>
      {demo.state === "running" ? (
        <span className={classes.hint}>{words.step(demo.steps, DEMO_STEPS)}</span>
      ) : (
        <Button component={Link} to="/welcome" size="xs">
          {words.cleanUp}
        </Button>
      )}
    </section>
  );
}
