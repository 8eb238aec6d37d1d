import { Button, NumberInput, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { ApiError, api, got, type Schema } from "@/api/client";
import { projectsQuery, useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { ProjectName } from "@/components/ProjectName";
import { Loading } from "@/components/states";
import { useOneCluster } from "@/frame/cluster";
import { quota } from "@/model/format";
import { text } from "@/text/welcome";
import { useFoundNodes } from "./NodesStep";
import { freeQuota } from "./notebook";
import { Step } from "./Step";
import classes from "./Welcome.module.css";

const { project: words } = text;
const SHOWN = 6;

/** The quota of a project over all node pools; null: unlimited. */
export function quotaOf(project: Schema<"Project">): number | null {
  const given = project.totalResources.gpuQuota;
  return given == null || given < 0 ? null : given;
}

export function ProjectStep({ isCurrent }: { isCurrent: boolean }) {
  const projects = useQuery(projectsQuery).data;
  const mayCreate = useMay("project.create");
  const [isAdding, setAdding] = useState(false);
  if (projects === undefined)
    return (
      <Step number={2} title={words.title} isDone={false} isCurrent={isCurrent}>
        <Loading height={40} />
      </Step>
    );
  const isDone = projects.length > 0;
  const isFormShown = mayCreate && (!isDone || isAdding);
  return (
    <Step
      number={2}
      title={words.title}
      isDone={isDone}
      isCurrent={isCurrent}
      aside={<span className={classes.hint}>{words.hint}</span>}
    >
      {isDone && (
        <ul className={classes.projects}>
          {projects.slice(0, SHOWN).map((each) => (
            <li key={each.id}>
              <ProjectName project={each.id} name={each.name} />
              <span className={classes.hint}>{words.quota(quota(quotaOf(each)))}</span>
            </li>
          ))}
        </ul>
      )}
      {!isDone && !mayCreate && <p className={classes.fact}>{words.ask}</p>}
      {isFormShown && <ProjectForm projects={projects} onDone={() => setAdding(false)} />}
      {isDone && mayCreate && !isAdding && (
        <div>
          <Button size="xs" onClick={() => setAdding(true)}>
            {words.another}
          </Button>
        </div>
      )}
    </Step>
  );
}

function ProjectForm({ projects, onDone }: { projects: Schema<"Project">[]; onDone: () => void }) {
  const queries = useQueryClient();
  const found = useFoundNodes();
  const cluster = useOneCluster()?.uuid;
  const capacity = found?.gpus ?? 0;
  const free = freeQuota(capacity, projects.map(quotaOf));
  const [name, setName] = useState(words.suggested);
  const [chosen, setChosen] = useState<number | string | null>(null);
  const isHeld = useWritesHeld();
  const deserved = Number(chosen ?? free);
  const create = useMutation({
    mutationFn: () =>
      got(
        api.POST("/api/v1/org-unit/projects", {
          body: { name, resources: [{ gpu: { deserved } }], ...(cluster ? { clusterId: cluster } : {}) } as never,
        }),
      ),
    onSuccess: async () => {
      done(words.created(name));
      await queries.invalidateQueries({ queryKey: ["projects"] });
      onDone();
    },
    onError: (error) => {
      if (!(error instanceof ApiError) || error.of("name") === undefined) refused(error);
    },
  });
  const problem = create.error instanceof ApiError ? create.error.of("name")?.what : undefined;
  const send = (event: FormEvent) => {
    event.preventDefault();
    create.mutate();
  };
  return (
    <form onSubmit={send} className={classes.formNotes}>
      <div className={classes.form}>
        <TextInput
          label={words.name}
          title={words.nameHint}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          required
          maxLength={63}
          error={problem}
          w={220}
        />
        <NumberInput label={words.gpuQuota} value={chosen ?? free} onChange={setChosen} min={0} w={120} />
        <Button
          type="submit"
          variant={projects.length === 0 ? "filled" : "default"}
          loading={create.isPending}
          disabled={isHeld || name === ""}
        >
          {words.create}
        </Button>
      </div>
      <p className={classes.hint}>{words.quotaHint(free, capacity)}</p>
    </form>
  );
}
