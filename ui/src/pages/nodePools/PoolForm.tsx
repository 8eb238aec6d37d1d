import { Autocomplete, Button, Drawer, Group, Select, Stack, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api, got, type Schema } from "@/api/client";
import { clustersQuery, nodesQuery } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import { Notice } from "@/components/Notice";
import { text as frame } from "@/text/frame";
import { text } from "@/text/nodePools";

type Pool = Schema<"NodePoolAnswer">;

/** `of` null: closed; "new": a new pool. */
export function PoolForm({ of, onClose }: { of: Pool | "new" | null; onClose: () => void }) {
  const title = of === null || of === "new" ? text.form.newTitle : text.form.editTitle(of.name);
  return (
    <Drawer opened={of !== null} onClose={onClose} position="right" size={480} title={title}>
      {of !== null && <Form pool={of === "new" ? null : of} onClose={onClose} />}
    </Drawer>
  );
}

/** The labels that nodes have, with their values. */
function useNodeLabels(): Map<string, Set<string>> {
  const nodes = useQuery(nodesQuery).data;
  const labels = new Map<string, Set<string>>();
  for (const node of nodes ?? [])
    for (const [key, value] of Object.entries(node.labels ?? {}))
      labels.set(key, (labels.get(key) ?? new Set()).add(value));
  return labels;
}

function Form({ pool, onClose }: { pool: Pool | null; onClose: () => void }) {
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const clusters = useQuery(clustersQuery).data ?? [];
  const labels = useNodeLabels();
  const [name, setName] = useState(pool?.name ?? "");
  const [key, setKey] = useState(pool?.labelKey ?? "");
  const [value, setValue] = useState(pool?.labelValue ?? "");
  const [cluster, setCluster] = useState(pool?.clusterId ?? "");
  const [strategy, setStrategy] = useState(pool?.placementStrategy ?? { gpu: "binpack", cpu: "binpack" });
  const save = useMutation({
    mutationFn: () =>
      pool === null
        ? got(
            api.POST("/api/v1/node-pools", {
              body: {
                name,
                labelKey: key,
                labelValue: value,
                placementStrategy: strategy,
                ...(cluster === "" ? {} : { clusterId: cluster }),
              } as Schema<"NodePoolRequest">,
            }),
          )
        : got(
            api.PATCH("/api/v1/node-pools/{pool_id}", {
              params: { path: { pool_id: pool.name }, header: { "If-Match": `"${pool.revision}"` } },
              body: {
                placementStrategy: strategy,
                ...(pool.isDefault ? {} : { labelKey: key, labelValue: value }),
              } as Schema<"NodePoolUpdate">,
            }),
          ),
    onSuccess: () => {
      done(pool === null ? text.form.created(name) : text.form.saved(name));
      for (const noun of ["pools", "figures", "nodes", "shares"]) void queries.invalidateQueries({ queryKey: [noun] });
      onClose();
    },
  });
  const error = save.error instanceof ApiError ? save.error : null;
  const choices = Object.entries(text.strategies).map(([each, label]) => ({ value: each, label }));
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <Stack gap="md">
        <TextInput
          label={text.form.name}
          description={pool === null ? text.form.nameHint : undefined}
          value={name}
          disabled={pool !== null}
          required
          onChange={(event) => setName(event.currentTarget.value)}
          error={error?.of("name")?.what}
        />
        {pool?.isDefault ? (
          <p>{text.form.defaultHint}</p>
        ) : (
          <>
            <Autocomplete
              label={text.form.key}
              description={text.form.labelHint}
              data={[...labels.keys()].sort()}
              value={key}
              onChange={setKey}
              required
              error={error?.of("labelKey")?.what}
            />
            <Autocomplete
              label={text.form.value}
              data={[...(labels.get(key) ?? [])].sort()}
              value={value}
              onChange={setValue}
              required
              error={error?.of("labelValue")?.what}
            />
          </>
        )}
        {pool === null && clusters.length > 1 && (
          <Select
            label={text.form.cluster}
            data={[
              { value: "", label: text.form.anyCluster },
              ...clusters.map((each) => ({ value: each.uuid, label: each.name })),
            ]}
            value={cluster}
            onChange={(next) => setCluster(next ?? "")}
            error={error?.of("clusterId")?.what}
          />
        )}
        <Select
          label={text.form.gpu}
          data={choices}
          value={strategy.gpu}
          allowDeselect={false}
          onChange={(gpu) => gpu && setStrategy({ ...strategy, gpu })}
          error={error?.of("placementStrategy.gpu")?.what}
        />
        <Select
          label={text.form.cpu}
          data={choices.filter((each) => each.value !== "fragmentation")}
          value={strategy.cpu}
          allowDeselect={false}
          onChange={(cpu) => cpu && setStrategy({ ...strategy, cpu })}
          error={error?.of("placementStrategy.cpu")?.what}
        />
        {save.error !== null && <Notice tone="bad">{save.error.message}</Notice>}
        <Group justify="flex-end">
          <Button onClick={onClose}>{frame.shared.cancel}</Button>
          <Button type="submit" variant="filled" loading={save.isPending} disabled={isHeld || name === ""}>
            {pool === null ? frame.shared.create : frame.shared.save}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
