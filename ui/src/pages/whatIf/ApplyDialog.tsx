/** Makes the real changes one by one, and stops at the first refusal. */
import { Button, Group, Modal } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";
import { ApiError } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import type { Changes } from "@/model/whatIf";
import { text } from "@/text/whatIf";
import { make } from "./applying";
import { type Step, stepsOf, submitSearch } from "./steps";
import classes from "./WhatIf.module.css";

interface Props {
  changes: Changes;
  cluster: string;
  pool: string;
  nameOfJob: (id: string) => string;
  /** With the steps that were made. */
  onClose: (made: Step[]) => void;
}

type State = keyof typeof text.apply.states;
const words = text.apply;
const isReal = (step: Step): boolean => step.kind !== "cannot" && step.kind !== "submit";

export function ApplyDialog({ changes, cluster, pool, nameOfJob, onClose }: Props) {
  // The steps of the moment at which the dialog was opened: names of jobs may go while they are made.
  // biome-ignore lint/correctness/useExhaustiveDependencies: as said
  const steps = useMemo(() => stepsOf(changes, nameOfJob), []);
  const [states, setStates] = useState<State[]>(() =>
    steps.map((each) => (each.kind === "cannot" ? "cannot" : "todo")),
  );
  const [refusal, setRefusal] = useState("");
  const [isRunning, run] = useState(false);
  const isStopped = useRef(false);
  const isHeld = useWritesHeld();
  const real = steps.filter(isReal).length;
  const hasBegun = states.some((each) => each !== "todo" && each !== "cannot");
  const apply = async () => {
    run(true);
    isStopped.current = false;
    const now = [...states];
    const become = (number: number, state: State) => {
      now[number] = state;
      setStates([...now]);
    };
    for (const [number, step] of steps.entries()) {
      if (!isReal(step)) continue;
      if (isStopped.current) become(number, "skipped");
      else {
        become(number, "doing");
        try {
          await make(step, cluster, pool);
          become(number, "done");
        } catch (error) {
          setRefusal(wordsOf(error));
          become(number, "refused");
          isStopped.current = true;
        }
      }
    }
    run(false);
    const made = now.filter((each) => each === "done").length;
    if (made > 0) done(words.done(made));
  };
  const close = () => onClose(steps.filter((_, number) => states[number] === "done"));
  return (
    <Modal
      opened
      onClose={close}
      title={words.title}
      size="lg"
      closeOnClickOutside={!isRunning}
      closeOnEscape={!isRunning}
    >
      <p className={classes.hint}>{real === 0 ? words.nothing : words.lead}</p>
      <ul className={classes.steps}>
        {steps.map((step, number) => (
          <li key={number}>
            <span>{step.words}</span>
            {step.kind === "submit" ? (
              <Link to="/submit" search={submitSearch(step.fields) as never}>
                {words.openSubmit}
              </Link>
            ) : (
              <span className={classes.hint}>{words.states[states[number]!]}</span>
            )}
            {step.kind === "cannot" && <span className={classes.hint}>{step.why}</span>}
            {states[number] === "refused" && (
              <span className={classes.refused} role="alert">
                {refusal}
              </span>
            )}
          </li>
        ))}
      </ul>
      <Group justify="flex-end" gap={8} mt="md">
        {isRunning ? (
          <Button
            onClick={() => {
              isStopped.current = true;
            }}
          >
            {words.stop}
          </Button>
        ) : (
          <Button onClick={close}>{words.close}</Button>
        )}
        {!hasBegun && real > 0 && (
          <Button variant="filled" onClick={() => void apply()} disabled={isHeld}>
            {words.confirm(real)}
          </Button>
        )}
      </Group>
    </Modal>
  );
}

function wordsOf(error: unknown): string {
  if (error instanceof ApiError && error.problems.length > 0)
    return error.problems.map((each) => (each.fix ? `${each.what} – ${each.fix}` : each.what)).join("; ");
  return error instanceof Error ? error.message : String(error);
}
