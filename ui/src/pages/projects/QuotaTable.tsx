/** GPUs, cores and memory of each node pool. */
import { ActionIcon, NumberInput, Select } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { type ApiError, api, got } from "@/api/client";
import { poolsQuery } from "@/api/queries";
import { text } from "@/text/projects";
import classes from "./ProjectForm.module.css";
import type { PoolValues } from "./projectForm";
import type { QuotaValues } from "./quotaChange";

interface Props {
  pools: PoolValues[];
  onChange: (pools: PoolValues[]) => void;
  error: ApiError | null;
  removable: boolean;
  /** What an empty GPU quota means. */
  emptyQuota?: string;
  /** -1 where unlimited is written so. */
  least?: number;
}

const priorityQuery = {
  queryKey: ["priorities"],
  queryFn: () => got(api.GET("/api/v1/org-unit/priorities")),
};

export function QuotaTable({ pools, onChange, error, removable, emptyQuota, least = 0 }: Props) {
  const priorities = useQuery(priorityQuery).data?.priorities ?? [];
  const names = useQuery(poolsQuery).data?.map((each) => each.name) ?? [];
  const set = (number: number, change: Partial<PoolValues>) =>
    onChange(pools.map((each, other) => (other === number ? { ...each, ...change } : each)));
  const { form } = text;
  return (
    <div>
      <h3>{form.quotas}</h3>
      <div className={classes.scroll}>
        <table className={classes.table}>
          <thead>
            <tr>
              {[
                form.pool,
                form.gpu,
                form.overQuota,
                form.limit,
                form.cpu,
                form.memory,
                form.priority,
                form.minRuntime,
              ].map((each) => (
                <th key={each} scope="col">
                  {each}
                </th>
              ))}
              <th scope="col" aria-label={form.removePool("")} />
            </tr>
          </thead>
          <tbody>
            {pools.map((each, number) => (
              <tr key={each.pool}>
                <td className={classes.pool}>
                  <Select
                    aria-label={form.pool}
                    w={130}
                    data={names.filter((name) => name === each.pool || !pools.some((one) => one.pool === name))}
                    value={each.pool}
                    allowDeselect={false}
                    onChange={(pool) => pool && set(number, { pool })}
                  />
                </td>
                <td>
                  <Amount
                    label={`${form.gpu}, ${each.pool}`}
                    value={each.quota}
                    onChange={(quota) => set(number, { quota })}
                    error={error?.of(`resources.${number}.gpu.deserved`)?.what}
                    placeholder={emptyQuota ?? form.unlimited}
                    least={least}
                  />
                </td>
                <td>
                  <Select
                    aria-label={`${form.overQuota}, ${each.pool}`}
                    w={156}
                    data={Object.entries(text.editor.weights).map(([value, label]) => ({ value, label }))}
                    value={each.overQuota ?? ""}
                    allowDeselect={false}
                    onChange={(value) => set(number, { overQuota: (value || null) as QuotaValues["overQuota"] })}
                  />
                </td>
                <td>
                  <Amount
                    label={`${form.limit}, ${each.pool}`}
                    value={each.limit}
                    onChange={(limit) => set(number, { limit })}
                    error={error?.of(`resources.${number}.gpu.limit`)?.what}
                  />
                </td>
                <td>
                  <Amount
                    label={`${form.cpu}, ${each.pool}`}
                    value={each.cpu}
                    onChange={(cpu) => set(number, { cpu })}
                    error={error?.of(`resources.${number}.cpu.deserved`)?.what}
                  />
                </td>
                <td>
                  <Amount
                    label={`${form.memory}, ${each.pool}`}
                    value={each.memoryGib}
                    onChange={(memoryGib) => set(number, { memoryGib })}
                    error={error?.of(`resources.${number}.memory.deserved`)?.what}
                  />
                </td>
                <td>
                  <Select
                    aria-label={`${form.priority}, ${each.pool}`}
                    w={168}
                    data={[
                      { value: "", label: form.defaultPriority(priorities.find((one) => one.isDefault)?.name ?? "") },
                      ...priorities.filter((one) => !one.isDefault).map((one) => one.name),
                    ]}
                    value={each.priority}
                    allowDeselect={false}
                    onChange={(priority) => set(number, { priority: priority ?? "" })}
                  />
                </td>
                <td>
                  <Amount
                    label={`${form.minRuntime}, ${each.pool}`}
                    value={each.protectedMinutes}
                    onChange={(protectedMinutes) => set(number, { protectedMinutes })}
                    placeholder="–"
                  />
                </td>
                <td>
                  {removable && (
                    <ActionIcon
                      variant="subtle"
                      color="gray"
                      onClick={() => onChange(pools.filter((_, other) => other !== number))}
                      aria-label={form.removePool(each.pool)}
                    >
                      <IconTrash size={16} />
                    </ActionIcon>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}

interface AmountProps {
  label: string;
  value: number | null;
  onChange: (value: number | null) => void;
  error?: string | undefined;
  placeholder?: string;
  least?: number;
}

/** Empty is unlimited. */
function Amount({ label, value, onChange, error, placeholder = text.form.unlimited, least = 0 }: AmountProps) {
  return (
    <NumberInput
      aria-label={label}
      w={84}
      min={least}
      clampBehavior="none"
      hideControls
      value={value ?? ""}
      placeholder={placeholder}
      onChange={(next) => onChange(typeof next === "number" ? next : null)}
      error={value !== null && value < least ? text.form.least(least) : error}
    />
  );
}
