import { Button, Drawer, Group, Select, Tabs, TextInput } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconPlus } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api, got, type Schema } from "@/api/client";
import { clustersQuery, poolsQuery } from "@/api/queries";
import { ifMatch, type Tagged, tagged } from "@/api/tagged";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import { Notice } from "@/components/Notice";
import { Loaded } from "@/components/states";
import { AccessTab } from "@/pages/projects/AccessTab";
import { NameField } from "@/pages/projects/GeneralTab";
import { LimitsTab } from "@/pages/projects/LimitsTab";
import { NodeTypesTab } from "@/pages/projects/NodeTypesTab";
import classes from "@/pages/projects/ProjectForm.module.css";
import { areAmounts, emptyPool, isName, type PoolValues, rulesOf, withoutField } from "@/pages/projects/projectForm";
import { QuotaTable } from "@/pages/projects/QuotaTable";
import { text } from "@/text/departments";
import { text as frame } from "@/text/frame";
import { departmentPool, departmentResources } from "./departmentForm";

interface Values {
  name: string;
  description: string;
  clusterId: string;
  pools: PoolValues[];
  training: string[];
  workspace: string[];
  rules: Schema<"SchedulingRules">;
}

/** `of` null: closed; "": a new one. */
export function DepartmentForm({ of, onClose }: { of: string | null; onClose: () => void }) {
  const isNarrow = useMediaQuery("(max-width: 700px)");
  return (
    <Drawer
      opened={of !== null}
      onClose={onClose}
      position="right"
      size={isNarrow ? "100%" : 1080}
      title={of ? text.form.editTitle(of) : text.form.newTitle}
    >
      {of === "" && <Form onClose={onClose} />}
      {of !== null && of !== "" && <Existing name={of} onClose={onClose} />}
    </Drawer>
  );
}

function Existing({ name, onClose }: { name: string; onClose: () => void }) {
  const query = useQuery({
    queryKey: ["departments", "one", name],
    queryFn: () =>
      tagged(api.GET("/api/v1/org-unit/departments/{department_id}", { params: { path: { department_id: name } } })),
  });
  return <Loaded query={query}>{(read) => <Form key={name} read={read} onClose={onClose} />}</Loaded>;
}

function valuesOf(department: Schema<"Department"> | undefined): Values {
  return {
    name: department?.name ?? "",
    description: department?.description ?? "",
    clusterId: department?.clusterId ?? "",
    pools: department?.resources.map(departmentPool) ?? [{ ...emptyPool("default"), quota: null }],
    training: department?.nodeTypes?.training ?? [],
    workspace: department?.nodeTypes?.workspace ?? [],
    rules: department?.schedulingRules ?? {},
  };
}

function Form({ read, onClose }: { read?: Tagged<Schema<"Department">>; onClose: () => void }) {
  const [start] = useState(read);
  const [values, setValues] = useState(() => valuesOf(start?.value));
  const [tab, setTab] = useState<string | null>("general");
  const isHeld = useWritesHeld();
  const save = useSave(start, onClose);
  const error = save.error instanceof ApiError ? save.error : null;
  const isWhole = (start !== undefined || isName(values.name)) && areAmounts(values.pools, -1);
  const elsewhere = error === null ? [] : withoutField(error.problems, tab);
  const isSaidHere = error !== null && (error.problems.length === 0 || error.status === 412 || elsewhere.length > 0);
  const change = (some: Partial<Values>) => setValues((now) => ({ ...now, ...some }));
  const { tabs } = text.form;
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
          <Tabs.Tab value="general">{tabs.general}</Tabs.Tab>
          <Tabs.Tab value="nodes">{tabs.nodes}</Tabs.Tab>
          <Tabs.Tab value="access">{tabs.access}</Tabs.Tab>
          <Tabs.Tab value="limits">{tabs.limits}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="general">
          <General values={values} onChange={change} isNew={start === undefined} error={error} />
        </Tabs.Panel>
        <Tabs.Panel value="nodes">
          <NodeTypesTab values={values} onChange={change} error={error} />
        </Tabs.Panel>
        <Tabs.Panel value="access">
          {start === undefined ? (
            <p>{text.form.afterCreate}</p>
          ) : (
            <AccessTab project={start.value.name} scope="department" />
          )}
        </Tabs.Panel>
        <Tabs.Panel value="limits">
          <LimitsTab rules={values.rules} inherited={undefined} onChange={(rules) => change({ rules })} error={error} />
        </Tabs.Panel>
      </Tabs>
      {isSaidHere && (
        <Notice tone="bad">
          {error.status === 412 ? text.form.conflict : elsewhere.map((each) => each.what).join("; ") || error.message}
        </Notice>
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

function useSave(start: Tagged<Schema<"Department">> | undefined, onSaved: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: (values: Values) => {
      const common = {
        description: values.description,
        nodeTypes: { training: values.training, workspace: values.workspace },
        schedulingRules: rulesOf(values.rules),
        resources: values.pools.map(departmentResources),
      };
      return start === undefined
        ? got(
            api.POST("/api/v1/org-unit/departments", {
              body: {
                ...common,
                name: values.name,
                ...(values.clusterId === "" ? {} : { clusterId: values.clusterId }),
              },
            }),
          )
        : got(
            api.PATCH("/api/v1/org-unit/departments/{department_id}", {
              params: { path: { department_id: start.value.name }, header: ifMatch(start.tag) },
              body: common,
            }),
          );
    },
    onSuccess: (_, { name }) => {
      done(start === undefined ? text.form.created(name) : text.form.saved(name));
      for (const key of ["departments", "projects", "shares"]) void queries.invalidateQueries({ queryKey: [key] });
      onSaved();
    },
  });
}

interface GeneralProps {
  values: Values;
  onChange: (change: Partial<Values>) => void;
  isNew: boolean;
  error: ApiError | null;
}

function General({ values, onChange, isNew, error }: GeneralProps) {
  const clusters = useQuery(clustersQuery).data ?? [];
  const pools = useQuery(poolsQuery).data ?? [];
  const others = pools.filter((each) => !values.pools.some((one) => one.pool === each.name));
  return (
    <div className={classes.form}>
      <div className={classes.fields}>
        <NameField
          value={values.name}
          onChange={(name) => onChange({ name })}
          isNew={isNew}
          refusal={error?.of("name")?.what}
        />
        {isNew && clusters.length > 1 && (
          <Select
            label={text.form.cluster}
            data={[
              { value: "", label: text.form.anyCluster },
              ...clusters.map((each) => ({ value: each.uuid, label: each.name })),
            ]}
            value={values.clusterId}
            onChange={(clusterId) => onChange({ clusterId: clusterId ?? "" })}
            error={error?.of("clusterId")?.what}
          />
        )}
        <TextInput
          label={text.form.description}
          value={values.description}
          onChange={(event) => onChange({ description: event.currentTarget.value })}
        />
      </div>
      <QuotaTable
        pools={values.pools}
        onChange={(next) => onChange({ pools: next })}
        error={error}
        removable={values.pools.length > 1}
        emptyQuota={text.form.sum}
        least={-1}
      />
      <p className={classes.second}>{text.form.sumHint}</p>
      {others.length > 0 && (
        <div>
          <Button
            size="xs"
            leftSection={<IconPlus size={14} />}
            onClick={() => onChange({ pools: [...values.pools, { ...emptyPool(others[0]!.name), quota: null }] })}
          >
            {text.form.addPool}
          </Button>
        </div>
      )}
    </div>
  );
}
