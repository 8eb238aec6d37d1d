import { ActionIcon, Button, Group, Menu, Modal, Stack, TextInput } from "@mantine/core";
import { IconDots, IconPlus } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { projectsQuery, useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { Card } from "@/components/Card";
import { CopyIcon } from "@/components/CopyText";
import { type Column, Grid } from "@/components/Grid";
import { useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { Notice } from "@/components/Notice";
import { Page } from "@/components/Page";
import { rowFacts } from "@/components/rowFacts";
import { StatusBadge } from "@/components/StatusBadge";
import { Empty } from "@/components/states";
import { UNKNOWN } from "@/model/format";
import { localRows } from "@/model/localRows";
import { text } from "@/text/clusters";
import { text as frame } from "@/text/frame";
import { ClusterWizard, type Joining } from "./ClusterWizard";

type Cluster = Schema<"ClusterAnswer">;

const PHASES: Record<string, string> = { Connected: "Running", WaitingToConnect: "Pending", Disconnected: "Failed" };
const stateName = (cluster: Cluster) => text.states[cluster.status.state] ?? cluster.status.state;

/** Whether a cluster is away shows in its last call, which no event announces: read with each measurement. */
const useClusters = () =>
  useQuery({
    queryKey: ["measured", "clusters"],
    queryFn: () => got(api.GET("/api/v1/clusters")) as Promise<Cluster[]>,
  });

interface Acts {
  connect: (joining: Joining) => void;
  rename: (cluster: Cluster) => void;
  renew: (cluster: Cluster) => void;
  remove: (cluster: Cluster) => void;
}

export function ClustersPage() {
  const [state, setState] = useListState();
  const query = useClusters();
  const queries = useQueryClient();
  const [isAdding, setAdding] = useState(false);
  const [joining, setJoining] = useState<Joining>();
  const [renaming, setRenaming] = useState<Cluster | null>(null);
  const [renewing, setRenewing] = useState<Cluster | null>(null);
  const [removing, setRemoving] = useState<Cluster | null>(null);
  const acts = useMemo(
    () => ({ connect: setJoining, rename: setRenaming, renew: setRenewing, remove: setRemoving }),
    [],
  );
  const columns = useColumns(acts);
  const shown = query.data && localRows(query.data, state, FIELDS);
  const close = () => {
    setAdding(false);
    setJoining(undefined);
    void queries.invalidateQueries({ queryKey: ["measured", "clusters"] });
  };
  const add = useMay("cluster.create") && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setAdding(true)}>
      {text.newCluster}
    </Button>
  );
  return (
    <Page title={text.title} lead={text.lead} actions={add}>
      <Card flush label={text.title}>
        <Grid
          label={text.title}
          rows={shown?.rows}
          total={shown?.total ?? null}
          error={query.error}
          onRetry={() => void query.refetch()}
          columns={columns}
          idOf={(each) => each.uuid}
          nameOf={(each) => each.name}
          state={state}
          onState={setState}
          card={(each) => rowFacts(columns, each)}
          empty={<Empty title={text.none} action={add} />}
        />
      </Card>
      <ClusterWizard isOpen={isAdding || joining !== undefined} joining={joining} onClose={close} />
      <Rename cluster={renaming} onClose={() => setRenaming(null)} />
      <NewToken cluster={renewing} onClose={() => setRenewing(null)} onMade={setJoining} />
      <Remove cluster={removing} onClose={() => setRemoving(null)} />
    </Page>
  );
}

const FIELDS = {
  name: (each: Cluster) => each.name,
  state: (each: Cluster) => stateName(each),
  seen: (each: Cluster) => each.lastLiveness,
  version: (each: Cluster) => each.version,
  url: (each: Cluster) => each.domain,
  created: (each: Cluster) => each.createdAt,
  uuid: (each: Cluster) => each.uuid,
};

function useCounts(type: "TOTAL_GPU_NODES" | "TOTAL_GPUS"): Map<string, number> | undefined {
  return useQuery({
    queryKey: ["figures", "clusters", type],
    queryFn: async () => {
      const answer = (await got(
        api.GET("/api/v1/nodes/telemetry", {
          params: { query: { telemetryType: type, groupBy: ["ClusterId"] } as never },
        }),
      )) as Schema<"Telemetry">;
      return new Map(answer.values.map((each) => [each.groups?.[0]?.value ?? "", Number(each.value)]));
    },
  }).data;
}

function useColumns(acts: Acts): Column<Cluster>[] {
  const nodes = useCounts("TOTAL_GPU_NODES");
  const gpus = useCounts("TOTAL_GPUS");
  const projects = useQuery(projectsQuery).data;
  return useMemo(() => {
    const { grid } = text;
    const count = (all: Map<string, number> | undefined, each: Cluster) =>
      all === undefined ? UNKNOWN : (all.get(each.uuid) ?? 0);
    const columns: Column<Cluster>[] = [
      { key: "name", header: grid.name, sort: "name", render: (each) => each.name, csv: (each) => each.name },
      {
        key: "state",
        header: grid.state,
        sort: "state",
        render: (each) => (
          <StatusBadge phase={PHASES[each.status.state] ?? each.status.state} word={stateName(each)} plain />
        ),
        csv: stateName,
      },
      {
        key: "seen",
        header: grid.seen,
        sort: "seen",
        render: (each) => (each.lastLiveness ? <Moment at={each.lastLiveness} /> : grid.never),
        csv: (each) => each.lastLiveness,
      },
      {
        key: "nodes",
        header: grid.nodes,
        align: "right",
        render: (each) => (
          <Link to="/nodes" search={{ f: [`clusterId==${each.uuid}`] } as never}>
            {count(nodes, each)}
          </Link>
        ),
        csv: (each) => nodes?.get(each.uuid),
      },
      {
        key: "gpus",
        header: grid.gpus,
        align: "right",
        render: (each) => count(gpus, each),
        csv: (each) => gpus?.get(each.uuid),
      },
      {
        key: "projects",
        header: grid.projects,
        align: "right",
        render: (each) => projects?.filter((one) => one.clusterId === each.uuid).length ?? UNKNOWN,
      },
      {
        key: "version",
        header: grid.version,
        sort: "version",
        render: (each) => each.version || UNKNOWN,
        csv: (each) => each.version,
      },
      {
        key: "url",
        header: grid.url,
        sort: "url",
        render: (each) => <Url cluster={each} />,
        csv: (each) => each.domain,
      },
      {
        key: "created",
        header: grid.created,
        sort: "created",
        render: (each) => <Moment at={each.createdAt} />,
        csv: (each) => each.createdAt,
      },
      {
        key: "uuid",
        header: grid.uuid,
        optional: true,
        render: (each) => (
          <span style={{ whiteSpace: "nowrap" }}>
            <code>{each.uuid}</code> <CopyIcon value={each.uuid} />
          </span>
        ),
        csv: (each) => each.uuid,
      },
      { key: "actions", header: "", width: 40, render: (each) => <RowMenu cluster={each} acts={acts} /> },
    ];
    return columns;
  }, [nodes, gpus, projects, acts]);
}

function Url({ cluster }: { cluster: Cluster }) {
  if (cluster.inControlPlane && cluster.domain === "") return <>{text.grid.here}</>;
  if (/^https?:\/\//.test(cluster.domain))
    return (
      <a href={cluster.domain} target="_blank" rel="noreferrer">
        {cluster.domain}
      </a>
    );
  return <>{cluster.domain || UNKNOWN}</>;
}

function RowMenu({ cluster, acts }: { cluster: Cluster; acts: Acts }) {
  const mayChange = useMay("cluster.update");
  const mayDelete = useMay("cluster.delete");
  if (!mayChange && !mayDelete) return null;
  const isHere = cluster.inControlPlane;
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="sm" aria-label={text.grid.actions(cluster.name)}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {mayChange && <Menu.Item onClick={() => acts.rename(cluster)}>{text.actions.rename}</Menu.Item>}
        {mayChange && (
          <Menu.Item disabled={isHere} onClick={() => acts.connect({ cluster, token: "" })}>
            {text.actions.continue}
          </Menu.Item>
        )}
        {mayChange && (
          <Menu.Item
            disabled={isHere}
            title={isHere ? text.actions.isHere : undefined}
            onClick={() => acts.renew(cluster)}
          >
            {text.actions.token}
          </Menu.Item>
        )}
        {mayDelete && (
          <Menu.Item color="red" onClick={() => acts.remove(cluster)}>
            {text.actions.remove}
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

function useRead() {
  const queries = useQueryClient();
  return () => {
    void queries.invalidateQueries({ queryKey: ["clusters"] });
    void queries.invalidateQueries({ queryKey: ["measured", "clusters"] });
  };
}

function Rename({ cluster, onClose }: { cluster: Cluster | null; onClose: () => void }) {
  return (
    <Modal opened={cluster !== null} onClose={onClose} title={cluster ? text.rename.title(cluster.name) : ""}>
      {cluster !== null && <RenameForm cluster={cluster} onClose={onClose} />}
    </Modal>
  );
}

function RenameForm({ cluster, onClose }: { cluster: Cluster; onClose: () => void }) {
  const [name, setName] = useState(cluster.name);
  const [url, setUrl] = useState(cluster.domain);
  const isHeld = useWritesHeld();
  const read = useRead();
  const save = useMutation({
    mutationFn: () =>
      got(
        api.PUT("/api/v1/clusters/{cluster_id}", {
          params: { path: { cluster_id: cluster.uuid }, header: { "If-Match": `"${cluster.revision}"` } },
          body: { name: name.trim(), domain: url.trim() } as Schema<"ClusterRequest">,
        }),
      ),
    onSuccess: () => {
      done(text.rename.saved(name.trim()));
      read();
      onClose();
    },
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <Stack gap="sm">
        <TextInput
          label={text.rename.name}
          value={name}
          required
          data-autofocus
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <TextInput
          label={text.rename.url}
          description={text.rename.urlHint}
          value={url}
          onChange={(event) => setUrl(event.currentTarget.value)}
        />
        {save.error !== null && <Notice tone="bad">{save.error.message}</Notice>}
        <Group justify="flex-end">
          <Button onClick={onClose}>{frame.shared.cancel}</Button>
          <Button type="submit" variant="filled" loading={save.isPending} disabled={isHeld || name.trim() === ""}>
            {frame.shared.save}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

interface TokenProps {
  cluster: Cluster | null;
  onClose: () => void;
  onMade: (joining: Joining) => void;
}

function NewToken({ cluster, onClose, onMade }: TokenProps) {
  const isHeld = useWritesHeld();
  const renew = useMutation({
    mutationFn: (uuid: string) =>
      got(api.POST("/api/v1/clusters/{cluster_id}/token", { params: { path: { cluster_id: uuid } } })),
    onSuccess: ({ token, ...made }) => {
      onClose();
      onMade({ cluster: made as Cluster, token });
    },
    onError: (error) => refused(error),
  });
  return (
    <Modal opened={cluster !== null} onClose={onClose} title={cluster ? text.token.title(cluster.name) : ""}>
      {cluster !== null && (
        <Stack gap="sm">
          <p>{text.token.hint}</p>
          <Group justify="flex-end">
            <Button onClick={onClose}>{frame.shared.cancel}</Button>
            <Button
              variant="filled"
              disabled={isHeld}
              loading={renew.isPending}
              onClick={() => renew.mutate(cluster.uuid)}
            >
              {text.token.make}
            </Button>
          </Group>
        </Stack>
      )}
    </Modal>
  );
}

function Remove({ cluster, onClose }: { cluster: Cluster | null; onClose: () => void }) {
  const isHeld = useWritesHeld();
  const read = useRead();
  const remove = useMutation({
    mutationFn: (each: Cluster) =>
      got(api.DELETE("/api/v1/clusters/{cluster_id}", { params: { path: { cluster_id: each.uuid } } })),
    onSuccess: (_, each) => {
      done(text.remove.done(each.name));
      read();
      onClose();
    },
  });
  const close = () => {
    remove.reset();
    onClose();
  };
  return (
    <Modal opened={cluster !== null} onClose={close} title={cluster ? text.remove.title(cluster.name) : ""}>
      {cluster !== null && (
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
              onClick={() => remove.mutate(cluster)}
            >
              {text.actions.remove}
            </Button>
          </Group>
        </Stack>
      )}
    </Modal>
  );
}
