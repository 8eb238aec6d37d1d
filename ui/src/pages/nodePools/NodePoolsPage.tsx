import { ActionIcon, Button, Group, Menu, Modal, Stack } from "@mantine/core";
import { IconDots, IconPlus, IconX } from "@tabler/icons-react";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { projectsQuery, useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import { Card } from "@/components/Card";
import { type Column, Grid } from "@/components/Grid";
import { listQuery, useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { Notice } from "@/components/Notice";
import { Page } from "@/components/Page";
import { rowFacts } from "@/components/rowFacts";
import { StatusBadge } from "@/components/StatusBadge";
import { useChosenCluster } from "@/frame/cluster";
import { bytes, gpus, quota, UNKNOWN } from "@/model/format";
import { sumOfQuotas } from "@/model/lending";
import { usePoolShares } from "@/pages/projects/shareData";
import { Warning } from "@/pages/projects/Warning";
import { text as frame } from "@/text/frame";
import { text } from "@/text/nodePools";
import { PoolCharts } from "./PoolCharts";
import { PoolForm } from "./PoolForm";
import { type Figure, usePoolFigures, usePoolWorkloads } from "./poolFigures";

type Pool = Schema<"NodePoolAnswer">;

export function NodePoolsPage() {
  const [state, setState] = useListState();
  const navigate = useNavigate();
  const { open } = useSearch({ strict: false }) as { open?: unknown };
  const [form, setForm] = useState<Pool | "new" | null>(null);
  const [removing, setRemoving] = useState<Pool | null>(null);
  const params = listQuery(state);
  const query = useQuery({
    queryKey: ["pools", "list", params],
    placeholderData: keepPreviousData,
    queryFn: () => got(api.GET("/api/v1/node-pools", { params: { query: params } })),
  });
  const show = (pool: string | undefined) =>
    void navigate({ to: ".", replace: true, search: (before: object) => ({ ...before, open: pool }) } as never);
  const columns = useColumns(setForm, setRemoving, show);
  const shown = query.data?.nodepools.find((each) => each.name === open);
  return (
    <Page
      title={text.title}
      lead={text.lead}
      actions={
        useMay("node-pool.create") && (
          <Button leftSection={<IconPlus size={16} />} onClick={() => setForm("new")}>
            {text.newPool}
          </Button>
        )
      }
    >
      <OverPools />
      <Card flush label={text.title}>
        <Grid
          label={text.title}
          rows={query.data?.nodepools}
          hasMore={query.data?.next != null}
          error={query.error}
          onRetry={() => void query.refetch()}
          columns={columns}
          idOf={(pool) => pool.name}
          nameOf={(pool) => pool.name}
          state={state}
          onState={setState}
          onOpen={(pool) => show(pool.name)}
          card={(pool) => rowFacts(columns, pool)}
          filterFields={[
            { field: "phase", label: text.grid.status, choices: ["Ready", "Empty"], operators: ["==", "!="] },
            { field: "labelKey", label: text.form.key },
            { field: "labelValue", label: text.form.value },
          ]}
        />
      </Card>
      {shown !== undefined && (
        <section aria-label={text.detail.title(shown.name)} style={{ display: "grid", gap: 12 }}>
          <Group>
            <h2>{text.detail.title(shown.name)}</h2>
            <Link to="/nodes" search={{ f: [`nodePool==${shown.name}`] } as never}>
              {text.detail.nodes}
            </Link>
            <ActionIcon variant="subtle" color="gray" onClick={() => show(undefined)} aria-label={text.detail.close}>
              <IconX size={16} />
            </ActionIcon>
          </Group>
          <PoolCharts pool={shown.name} />
        </section>
      )}
      <PoolForm of={form} onClose={() => setForm(null)} />
      <DeletePool pool={removing} onClose={() => setRemoving(null)} />
    </Page>
  );
}

function OverPools() {
  const { shares } = usePoolShares();
  const over = (shares?.allTotals ?? [])
    .map((each) => {
      const inPool = shares!.all.filter((one) => one.kind === "project" && one.nodePool === each.nodePool);
      return { ...each, sum: sumOfQuotas(inPool) };
    })
    .filter((each) => each.sum > each.capacity);
  if (over.length === 0) return null;
  return (
    <Warning state="over-pool">
      {over.map((each) => (
        <div key={each.nodePool}>{text.overPool(each.nodePool, quota(each.sum), each.capacity)}</div>
      ))}
    </Warning>
  );
}

function useColumns(
  onEdit: (pool: Pool) => void,
  onRemove: (pool: Pool) => void,
  onShow: (pool: string) => void,
): Column<Pool>[] {
  const cluster = useChosenCluster()?.uuid;
  const figures = usePoolFigures(cluster);
  const workloads = usePoolWorkloads();
  const projects = useQuery(projectsQuery).data;
  return useMemo(() => {
    const { grid } = text;
    const figure = (key: string, header: string, of: Figure, write: (value: number) => string, optional = false) => ({
      key,
      header,
      align: "right" as const,
      optional,
      render: (pool: Pool) => {
        const value = figures?.get(pool.name)?.[of] ?? (figures === undefined ? undefined : 0);
        return value === undefined ? UNKNOWN : write(value);
      },
      csv: (pool: Pool) => figures?.get(pool.name)?.[of],
    });
    const mine = projects?.filter((each) => cluster === undefined || each.clusterId === cluster);
    const quotas = (pool: Pool) => {
      if (mine === undefined) return UNKNOWN;
      const sum = mine
        .flatMap((each) => each.resources)
        .filter((each) => (each.nodePool?.id ?? "default") === pool.name)
        .reduce((total, each) => total + Math.max(0, each.gpu?.deserved ?? 0), 0);
      return grid.quotaOf(quota(sum), quota(figures?.get(pool.name)?.TOTAL_GPUS));
    };
    const columns: Column<Pool>[] = [
      { key: "name", header: grid.name, sort: "name", render: (pool) => pool.name, csv: (pool) => pool.name },
      {
        key: "status",
        header: grid.status,
        sort: "phase",
        render: (pool) => (
          <StatusBadge phase={pool.phase === "Ready" ? "Running" : "Stopped"} word={pool.phase} plain />
        ),
        csv: (pool) => pool.phase,
      },
      {
        key: "label",
        header: grid.label,
        sort: "labelKey",
        render: (pool) => (pool.isDefault ? grid.noLabel : `${pool.labelKey}=${pool.labelValue}`),
        csv: (pool) => `${pool.labelKey}=${pool.labelValue}`,
      },
      {
        key: "nodes",
        header: grid.nodes,
        align: "right",
        render: (pool) => (
          <Link to="/nodes" search={{ f: [`nodePool==${pool.name}`] } as never}>
            {pool.nodes?.length ?? UNKNOWN}
          </Link>
        ),
        csv: (pool) => pool.nodes?.length,
      },
      figure("gpus", grid.gpus, "TOTAL_GPUS", quota),
      figure("allocated", grid.allocated, "ALLOCATED_GPUS", gpus),
      { key: "quotas", header: grid.quotas, align: "right", render: quotas, csv: quotas },
      figure("gpuMemory", grid.gpuMemory, "TOTAL_GPU_MEMORY_BYTES", bytes),
      figure("cpus", grid.cpus, "TOTAL_CPU_CORES", (value) => value.toFixed(0), true),
      figure("cpuAllocated", grid.cpuAllocated, "ALLOCATED_CPU_CORES", (value) => value.toFixed(1), true),
      figure("cpuMemory", grid.cpuMemory, "TOTAL_CPU_MEMORY_BYTES", bytes, true),
      figure("memoryAllocated", grid.memoryAllocated, "ALLOCATED_CPU_MEMORY_BYTES", bytes, true),
      {
        key: "gpuStrategy",
        header: grid.gpuStrategy,
        render: (pool) => text.short[pool.placementStrategy.gpu] ?? pool.placementStrategy.gpu,
        csv: (pool) => pool.placementStrategy.gpu,
      },
      {
        key: "cpuStrategy",
        header: grid.cpuStrategy,
        optional: true,
        render: (pool) => text.short[pool.placementStrategy.cpu] ?? pool.placementStrategy.cpu,
        csv: (pool) => pool.placementStrategy.cpu,
      },
      {
        key: "workloads",
        header: grid.workloads,
        align: "right",
        render: (pool) => (workloads === undefined ? UNKNOWN : (workloads.get(pool.name) ?? 0)),
        csv: (pool) => (workloads === undefined ? null : (workloads.get(pool.name) ?? 0)),
      },
      {
        key: "ratio",
        header: grid.ratio,
        align: "right",
        optional: true,
        render: (pool) => pool.overProvisioningRatio,
      },
      {
        key: "cluster",
        header: grid.cluster,
        optional: true,
        render: (pool) => (pool.clusterId === "" ? grid.allClusters : pool.clusterName),
      },
      {
        key: "updated",
        header: grid.updated,
        optional: true,
        sort: "updatedAt",
        render: (pool) => <Moment at={pool.updatedAt} />,
        csv: (pool) => pool.updatedAt,
      },
      {
        key: "created",
        header: grid.created,
        optional: true,
        sort: "createdAt",
        render: (pool) => <Moment at={pool.createdAt} />,
        csv: (pool) => pool.createdAt,
      },
      {
        key: "actions",
        header: "",
        width: 40,
        render: (pool) => <PoolMenu pool={pool} onEdit={onEdit} onRemove={onRemove} onShow={onShow} />,
      },
    ];
    return columns;
  }, [figures, workloads, projects, cluster, onEdit, onRemove, onShow]);
}

interface MenuProps {
  pool: Pool;
  onEdit: (pool: Pool) => void;
  onRemove: (pool: Pool) => void;
  onShow: (pool: string) => void;
}

function PoolMenu({ pool, onEdit, onRemove, onShow }: MenuProps) {
  const mayChange = useMay("node-pool.update");
  const mayDelete = useMay("node-pool.delete");
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="sm" aria-label={text.grid.actions(pool.name)}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => onShow(pool.name)}>{text.detail.open}</Menu.Item>
        {mayChange && <Menu.Item onClick={() => onEdit(pool)}>{frame.shared.edit}</Menu.Item>}
        {mayDelete && (
          <Menu.Item
            color="red"
            disabled={pool.isDefault}
            title={pool.isDefault ? text.remove.isDefault : undefined}
            onClick={() => onRemove(pool)}
          >
            {frame.shared.delete}
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

function DeletePool({ pool, onClose }: { pool: Pool | null; onClose: () => void }) {
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const remove = useMutation({
    mutationFn: (name: string) =>
      got(api.DELETE("/api/v1/node-pools/{pool_id}", { params: { path: { pool_id: name } } })),
    onSuccess: (_, name) => {
      done(text.remove.done(name));
      for (const noun of ["pools", "figures", "nodes", "shares"]) void queries.invalidateQueries({ queryKey: [noun] });
      onClose();
    },
  });
  const close = () => {
    remove.reset();
    onClose();
  };
  return (
    <Modal opened={pool !== null} onClose={close} title={pool === null ? "" : text.remove.title(pool.name)}>
      {pool !== null && (
        <Stack gap="sm">
          <p>{text.remove.hint}</p>
          {remove.error !== null && (
            <Notice tone="bad" title={text.remove.refused}>
              {remove.error.message}
            </Notice>
          )}
          <Group justify="flex-end">
            <Button onClick={close}>{frame.shared.cancel}</Button>
            <Button
              variant="filled"
              color="red"
              disabled={isHeld}
              loading={remove.isPending}
              onClick={() => remove.mutate(pool.name)}
            >
              {frame.shared.delete}
            </Button>
          </Group>
        </Stack>
      )}
    </Modal>
  );
}
