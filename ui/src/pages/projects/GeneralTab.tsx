import { Button, MultiSelect, Select, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { ApiError, Schema } from "@/api/client";
import { clustersQuery, departmentsQuery, poolsQuery, sharesQuery } from "@/api/queries";
import { sumOfQuotas } from "@/model/lending";
import { text } from "@/text/projects";
import classes from "./ProjectForm.module.css";
import { emptyPool, isName, NAME_MAX, type PoolValues, type ProjectValues } from "./projectForm";
import { QuotaTable } from "./QuotaTable";
import { Warning } from "./Warning";

/** Inputs of a row stand at one height, whatever is said about them. */
const BELOW: ("label" | "input" | "description" | "error")[] = ["label", "input", "description", "error"];

export interface TabProps {
  values: ProjectValues;
  onChange: (change: Partial<ProjectValues>) => void;
  /** The project that is changed; none: a new one. */
  project: Schema<"Project"> | undefined;
  error: ApiError | null;
}

/** Name, department, and quotas of each node pool. */
export function GeneralTab({ values, onChange, project, error }: TabProps) {
  const departments = useQuery(departmentsQuery).data ?? [];
  const clusters = useQuery(clustersQuery).data ?? [];
  const pools = useQuery(poolsQuery).data ?? [];
  const others = pools.filter((each) => !values.pools.some((one) => one.pool === each.name));
  return (
    <div className={classes.form}>
      <div className={classes.fields}>
        <NameField
          value={values.name}
          onChange={(name) => onChange({ name })}
          isNew={project === undefined}
          refusal={error?.of("name")?.what}
        />
        <Select
          label={text.form.department}
          data={departments.map((each) => each.name)}
          value={values.parentId}
          allowDeselect={false}
          onChange={(parentId) => parentId && onChange({ parentId })}
          error={error?.of("parentId")?.what}
        />
        {project === undefined && clusters.length > 1 && (
          <Select
            label={text.form.cluster}
            data={clusters.map((each) => ({ value: each.uuid, label: each.name }))}
            value={values.clusterId}
            onChange={(clusterId) => onChange({ clusterId: clusterId ?? "" })}
            error={error?.of("clusterId")?.what}
          />
        )}
        {project !== undefined && (
          <TextInput
            label={text.form.namespace}
            description={text.form.namespaceHint}
            inputWrapperOrder={BELOW}
            value={project.status.namespace}
            disabled
          />
        )}
        <TextInput
          className={classes.wide}
          label={text.form.description}
          value={values.description}
          onChange={(event) => onChange({ description: event.currentTarget.value })}
        />
      </div>
      <QuotaTable
        pools={values.pools}
        error={error}
        onChange={(next) => onChange({ pools: next })}
        removable={values.pools.length > 1}
      />
      <OverPools values={values} />
      {others.length > 0 && (
        <div>
          <Button
            size="xs"
            leftSection={<IconPlus size={14} />}
            onClick={() => onChange({ pools: [...values.pools, emptyPool(others[0]!.name)] })}
          >
            {text.form.addPool}
          </Button>
        </div>
      )}
      {pools.length > 1 && (
        <MultiSelect
          label={text.form.order}
          description={text.form.orderHint}
          data={pools.map((each) => each.name)}
          value={values.defaultNodePools}
          onChange={(defaultNodePools) => onChange({ defaultNodePools })}
          error={error?.of("defaultNodePools")?.what}
        />
      )}
    </div>
  );
}

interface NameProps {
  value: string;
  onChange: (name: string) => void;
  isNew: boolean;
  /** What the server says of it. */
  refusal: string | undefined;
}

/** The name of a project or department. A wrong one is refused when the field is left. */
export function NameField({ value, onChange, isNew, refusal }: NameProps) {
  const [isLeft, setLeft] = useState(false);
  const isWrong = isNew && isLeft && value !== "" && !isName(value);
  return (
    <TextInput
      label={text.form.name}
      description={isNew && !isWrong ? text.form.nameHint : undefined}
      inputWrapperOrder={BELOW}
      value={value}
      disabled={!isNew}
      required
      data-autofocus
      onChange={(event) => onChange(event.currentTarget.value)}
      onBlur={() => setLeft(true)}
      error={isWrong ? text.form.nameRule(NAME_MAX) : refusal}
    />
  );
}

/** Says so before it is saved: quotas of a pool add up to more than it has. */
function OverPools({ values }: { values: ProjectValues }) {
  const clusters = useQuery(clustersQuery).data;
  const cluster = values.clusterId || clusters?.[0]?.uuid;
  const page = useQuery({ ...sharesQuery(cluster), enabled: cluster !== undefined }).data;
  if (page === undefined) return null;
  const over = (each: PoolValues) => {
    const capacity = page.pools.find((pool) => pool.nodePool === each.pool)?.capacity;
    const others = page.shares.filter(
      (share) => share.kind === "project" && share.nodePool === each.pool && share.name !== values.name,
    );
    const sum = sumOfQuotas(others) + (each.quota ?? 0);
    return capacity !== undefined && sum > capacity ? text.form.overPool(each.pool, sum, capacity) : null;
  };
  const warnings = values.pools.map(over).filter((each) => each !== null);
  if (warnings.length === 0) return null;
  return <Warning state="over-pool">{warnings.join(" ")}</Warning>;
}
