import { Button, SegmentedControl, Select } from "@mantine/core";
import { IconCheck, IconExternalLink } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { call, type Schema } from "@/api/client";
import { usePreference } from "@/api/preferences";
import { projectsQuery, useMay, useMe } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { refused, withUndo } from "@/components/answers";
import { StatusBadge, StatusIcon } from "@/components/StatusBadge";
import { WhyLine } from "@/components/WhyLine";
import { text } from "@/text/welcome";
import { useFoundNodes } from "./NodesStep";
import { addressOf, NOTEBOOK_NAME, newToken, notebookRequest, progressOf, type Size, type State } from "./notebook";
import { Step } from "./Step";
import { notebookQuery, notebookSaysQuery } from "./steps";
import classes from "./Welcome.module.css";

const { notebook: words } = text;

export function useNotebook(): Schema<"Workload"> | null | undefined {
  const me = useMe();
  return useQuery(notebookQuery(me?.username ?? "")).data;
}

export function NotebookStep({ isCurrent }: { isCurrent: boolean }) {
  const notebook = useNotebook();
  const isReady = notebook != null && progressOf(notebook).ready === "done";
  return (
    <Step
      number={3}
      title={words.title}
      isDone={isReady}
      isCurrent={isCurrent}
      aside={<span className={classes.hint}>{words.hint}</span>}
    >
      {notebook == null ? <NotebookForm /> : <Starting notebook={notebook} />}
    </Step>
  );
}

function NotebookForm() {
  const queries = useQueryClient();
  const projects = useQuery(projectsQuery).data ?? [];
  const found = useFoundNodes();
  const maySubmit = useMay("workspace.create");
  const isHeld = useWritesHeld();
  const hasGpus = (found?.gpus ?? 0) > 0;
  const [chosenProject, setProject] = useState<string | null>(null);
  const [chosenSize, setSize] = useState<Size | null>(null);
  const project = chosenProject ?? projects[0]?.id ?? null;
  const size: Size = chosenSize ?? (hasGpus ? "whole" : "none");
  const submit = useMutation({
    mutationFn: () =>
      call("POST", "/api/v1/workloads/workspaces", notebookRequest(NOTEBOOK_NAME, project!, size, newToken())),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["workloads", "notebook"] }),
    onError: (error) => refused(error, words.failed),
  });
  const sizes: Size[] = hasGpus ? ["half", "whole"] : ["none"];
  return (
    <>
      <div className={classes.form}>
        {projects.length > 1 && (
          <Select
            label={words.project}
            value={project}
            onChange={setProject}
            allowDeselect={false}
            data={projects.map((each) => ({ value: each.id, label: each.name }))}
            w={200}
          />
        )}
        <SegmentedControl
          aria-label={words.size}
          value={size}
          onChange={(value) => setSize(value as Size)}
          data={sizes.map((each) => ({ value: each, label: words.sizes[each]! }))}
        />
        <Button
          variant="filled"
          onClick={() => submit.mutate()}
          loading={submit.isPending}
          disabled={isHeld || !maySubmit || project === null || found === undefined || found.nodes === 0}
        >
          {words.open}
        </Button>
      </div>
      {found?.isSimulated && size !== "none" && <p className={classes.hint}>{words.simulated}</p>}
      <p className={classes.hint}>{words.needsJupyter}</p>
      {project === null && <p className={classes.hint}>{words.needsProject}</p>}
    </>
  );
}

/** How far it has come, then the way in. */
function Starting({ notebook }: { notebook: Schema<"Workload"> }) {
  const [, setDone] = usePreference("welcome.done", false);
  const progress = progressOf(notebook);
  const address = addressOf(notebook);
  const isReady = progress.ready === "done" && address !== null;
  const says = useQuery({ ...notebookSaysQuery(notebook.id), enabled: isReady }).data;
  if (notebook.phase === "Failed") return <NotStarted notebook={notebook} />;
  return (
    <>
      <ul className={classes.progress} aria-live="polite">
        <Part state={progress.submitted}>{words.steps.submitted}</Part>
        <Part state={progress.placed}>{words.steps.placed(notebook.currentNodes?.[0])}</Part>
        <Part state={progress.image}>{words.steps.image(notebook.images?.[0])}</Part>
        <Part state={progress.ready}>{words.steps.ready}</Part>
      </ul>
      {notebook.phase === "Pending" && notebook.phaseMessage !== "" && (
        <WhyLine cause={notebook.wait} reason={notebook.reason} message={notebook.phaseMessage} />
      )}
      <div className={classes.row}>
        {isReady && (
          <Button
            component="a"
            variant="filled"
            href={address}
            target="_blank"
            rel="noreferrer"
            title={words.connectHint}
            rightSection={<IconExternalLink size={16} />}
            onClick={() => setDone(true)}
          >
            {words.connect}
          </Button>
        )}
        <Button component={Link} to={`/workloads/${notebook.id}` as never}>
          {words.details}
        </Button>
        <RemoveButton notebook={notebook} />
      </div>
      {says != null && <p className={classes.hint}>{`${words.placeholder} ${says}.`}</p>}
    </>
  );
}

function NotStarted({ notebook }: { notebook: Schema<"Workload"> }) {
  return (
    <>
      <div className={classes.row}>
        <StatusBadge phase={notebook.phase} />
        <span>{notebook.phaseMessage || notebook.reason}</span>
      </div>
      <div className={classes.row}>
        <Button component={Link} to={`/workloads/${notebook.id}` as never}>
          {words.details}
        </Button>
        <RemoveButton notebook={notebook} />
      </div>
    </>
  );
}

function RemoveButton({ notebook }: { notebook: Schema<"Workload"> }) {
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const [isGoing, setGoing] = useState(false);
  const remove = () => {
    setGoing(true);
    withUndo(
      words.removed(notebook.name),
      async () => {
        await call("DELETE", `/api/v1/workloads/${notebook.id}`);
        await queries.invalidateQueries({ queryKey: ["workloads"] });
      },
      () => setGoing(false),
    );
  };
  return (
    <Button variant="subtle" onClick={remove} disabled={isHeld || isGoing}>
      {words.remove}
    </Button>
  );
}

function Part({ state, children }: { state: State; children: string }) {
  return (
    <li data-state={state}>
      {state === "done" ? (
        <IconCheck size={16} stroke={2.4} className={classes.ticks} aria-hidden="true" />
      ) : state === "now" ? (
        <StatusIcon phase="Initializing" />
      ) : (
        <span className={classes.dot} aria-hidden="true" />
      )}
      {children}
    </li>
  );
}
