/** A project: new or changed. */
import { Alert, Button, Drawer, Group, Tabs } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import type { Schema } from "@/api/client";
import { ApiError, api, got } from "@/api/client";
import { ifMatch, type Tagged } from "@/api/tagged";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { Loaded } from "@/components/states";
import { text as frame } from "@/text/frame";
import { text } from "@/text/projects";
import { AccessTab } from "./AccessTab";
import { GeneralTab } from "./GeneralTab";
import { LimitsTab } from "./LimitsTab";
import { NodeTypesTab } from "./NodeTypesTab";
import classes from "./ProjectForm.module.css";
import {
  areAmounts,
  emptyPool,
  isName,
  type ProjectValues,
  poolResources,
  projectValuesOf,
  rulesOf,
  tabOf,
  updateOf,
  withoutField,
} from "./projectForm";
import { projectQuery } from "./QuotaEditor";

interface Props {
  /** The name of a project, "" for a new one, null: closed. */
  of: string | null;
  department?: string;
  onClose: () => void;
}

export function ProjectForm({ of, department, onClose }: Props) {
  const isNarrow = useMediaQuery("(max-width: 700px)");
  return (
    <Drawer
      opened={of !== null}
      onClose={onClose}
      position="right"
      size={isNarrow ? "100%" : 1080}
      title={of ? text.form.editTitle(of) : text.form.newTitle}
    >
      {of === "" && <Form department={department} onClose={onClose} />}
      {of !== null && of !== "" && <Existing name={of} onClose={onClose} />}
    </Drawer>
  );
}

function Existing({ name, onClose }: { name: string; onClose: () => void }) {
  const query = useQuery(projectQuery(name));
  return <Loaded query={query}>{(read) => <Form key={name} read={read} onClose={onClose} />}</Loaded>;
}

interface FormProps {
  read?: Tagged<Schema<"Project">>;
  department?: string | undefined;
  onClose: () => void;
}

function emptyProject(department: string | undefined): ProjectValues {
  return {
    name: "",
    description: "",
    parentId: department ?? "default",
    clusterId: "",
    pools: [emptyPool("default")],
    defaultNodePools: [],
    training: [],
    workspace: [],
    rules: {},
  };
}

function Form({ read, department, onClose }: FormProps) {
  const [start] = useState(read);
  const [before] = useState(() => (start ? projectValuesOf(start.value) : emptyProject(department)));
  const [values, setValues] = useState(before);
  const [tab, setTab] = useState<string | null>("general");
  const isHeld = useWritesHeld();
  const save = useSave(start, before, onClose, (error) => {
    const field = error.problems[0]?.field;
    if (field) setTab(tabOf(field));
  });
  const error = save.error instanceof ApiError ? save.error : null;
  const isWhole = (start !== undefined || isName(values.name)) && areAmounts(values.pools);
  const elsewhere = error === null ? [] : withoutField(error.problems, tab);
  const isSaidHere = error !== null && (error.problems.length === 0 || error.status === 412 || elsewhere.length > 0);
  const change = (some: Partial<ProjectValues>) => setValues((now) => ({ ...now, ...some }));
  return (
    <form
      className={classes.form}
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate(values);
      }}
    >
      <Tabs value={tab} onChange={setTab} keepMounted={false}>
        <Tabs.List mb="md">
          <Tabs.Tab value="general">{text.form.tabs.general}</Tabs.Tab>
          <Tabs.Tab value="nodes">{text.form.tabs.nodes}</Tabs.Tab>
          <Tabs.Tab value="access">{text.form.tabs.access}</Tabs.Tab>
          <Tabs.Tab value="limits">{text.form.tabs.limits}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="general">
          <GeneralTab values={values} onChange={change} project={start?.value} error={error} />
        </Tabs.Panel>
        <Tabs.Panel value="nodes">
          <NodeTypesTab values={values} onChange={change} project={start?.value} error={error} />
        </Tabs.Panel>
        <Tabs.Panel value="access">
          {start === undefined ? <p>{text.access.afterCreate}</p> : <AccessTab project={start.value.name} />}
        </Tabs.Panel>
        <Tabs.Panel value="limits">
          <LimitsTab
            rules={values.rules}
            inherited={start?.value.effective.schedulingRules}
            onChange={(rules) => change({ rules })}
            error={error}
          />
        </Tabs.Panel>
      </Tabs>
      {isSaidHere && (
        <Alert color="red" role="alert">
          {error.status === 412 ? text.form.conflict : elsewhere.map((each) => each.what).join("; ") || error.message}
        </Alert>
      )}
      <Group justify="flex-end">
        <Button onClick={onClose}>{frame.shared.cancel}</Button>
        <Button type="submit" variant="filled" loading={save.isPending} disabled={isHeld || !isWhole}>
          {start === undefined ? frame.shared.create : frame.shared.save}
        </Button>
      </Group>
    </form>
  );
}

function useSave(
  start: Tagged<Schema<"Project">> | undefined,
  before: ProjectValues,
  onSaved: () => void,
  onRefused: (error: ApiError) => void,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (values: ProjectValues) =>
      start === undefined
        ? got(api.POST("/api/v1/org-unit/projects", { body: newProject(values) }))
        : got(
            api.PATCH("/api/v1/org-unit/projects/{project_id}", {
              params: { path: { project_id: start.value.name }, header: ifMatch(start.tag) },
              body: updateOf(before, values),
            }),
          ),
    onSuccess: (_, { name }) => {
      done(start === undefined ? text.form.created(name) : text.form.saved(name));
      for (const key of ["projects", "shares", "departments"]) void queries.invalidateQueries({ queryKey: [key] });
      onSaved();
    },
    onError: (error) => (error instanceof ApiError && error.status < 500 ? onRefused(error) : refused(error)),
  });
}

function newProject(values: ProjectValues): Schema<"ProjectRequest"> {
  return {
    name: values.name,
    description: values.description,
    parentId: values.parentId,
    enforceRunaiScheduler: true,
    ...(values.clusterId === "" ? {} : { clusterId: values.clusterId }),
    defaultNodePools: values.defaultNodePools,
    nodeTypes: { training: values.training, workspace: values.workspace },
    schedulingRules: rulesOf(values.rules),
    resources: values.pools.map(poolResources),
  };
}
