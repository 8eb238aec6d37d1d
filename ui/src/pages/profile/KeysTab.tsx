import { Button, Group, Menu, Modal, MultiSelect, Select, Stack, TextInput } from "@mantine/core";
import { modals } from "@mantine/modals";
import { IconPlus } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { projectsQuery, useMe } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { refused } from "@/components/answers";
import { type Column, Grid } from "@/components/Grid";
import { useListState } from "@/components/listState";
import { useRemoval } from "@/components/removal";
import { rowFacts } from "@/components/rowFacts";
import { type Secret, SecretOnce } from "@/components/SecretOnce";
import { Empty } from "@/components/states";
import { localRows } from "@/model/localRows";
import { otherProblems, problemOf } from "@/model/problem";
import { KEY_COLUMNS, KEY_FIELDS } from "@/pages/access/KeysTab";
import { Problems, RowMenu } from "@/pages/access/parts";
import { text as frame } from "@/text/frame";
import { text } from "@/text/profile";
import classes from "./Profile.module.css";

type Key = Schema<"AccessKeyAnswer">;
const { keys: words } = text;
const KEYS = ["me", "access-keys"] as const;

function secretOf(key: Schema<"NewAccessKey">): Secret {
  return {
    title: words.secretTitle(key.name),
    hint: words.secretHint,
    values: [
      { label: words.clientId, value: key.clientId },
      { label: words.secret, value: key.secret },
      { label: words.line, value: `${key.clientId}:${key.secret}` },
    ],
  };
}

export function KeysTab() {
  const queries = useQueryClient();
  const [state, setState] = useListState();
  const [isNew, setNew] = useState(false);
  const [secret, setSecret] = useState<Secret | null>(null);
  const isHeld = useWritesHeld();
  const removal = useRemoval(KEYS);
  const query = useQuery({
    queryKey: KEYS,
    queryFn: async () => (await got(api.GET("/api/v1/access-keys"))).accessKeys,
    staleTime: 0,
  });
  const shown =
    query.data &&
    localRows(
      query.data.filter((each) => !removal.isHidden(each.id)),
      state,
      KEY_FIELDS,
    );
  const renew = async (key: Key) => {
    try {
      const path = { key_id: key.id };
      setSecret(secretOf(await got(api.POST("/api/v1/access-keys/{key_id}/secret", { params: { path } }))));
    } catch (error) {
      refused(error);
    }
  };
  const actions: Column<Key> = {
    key: "actions",
    header: "",
    align: "right",
    render: (row) => (
      <RowMenu name={row.name}>
        <Menu.Item
          disabled={isHeld}
          onClick={() =>
            modals.openConfirmModal({
              title: words.renewTitle(row.name),
              children: words.renewHint,
              labels: { confirm: words.renew, cancel: frame.shared.cancel },
              onConfirm: () => void renew(row),
            })
          }
        >
          {words.renew}
        </Menu.Item>
        <Menu.Item
          color="red"
          disabled={isHeld}
          onClick={() =>
            removal.remove([row.id], words.willDelete(row.name), () =>
              got(api.DELETE("/api/v1/access-keys/{key_id}", { params: { path: { key_id: row.id } } })),
            )
          }
        >
          {words.delete}
        </Menu.Item>
      </RowMenu>
    ),
  };
  const columns = [...KEY_COLUMNS, actions];
  const add = (
    <Button size="xs" leftSection={<IconPlus size={14} />} disabled={isHeld} onClick={() => setNew(true)}>
      {words.new}
    </Button>
  );
  return (
    <>
      <p className={classes.hint}>{words.lead}</p>
      <Grid
        label={text.tabs.keys}
        rows={shown?.rows}
        total={shown?.total ?? null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={columns}
        idOf={(row) => row.id}
        nameOf={(row) => row.name}
        state={state}
        onState={setState}
        card={(row) => rowFacts(columns, row)}
        empty={<Empty title={words.empty} />}
        tools={add}
      />
      <Modal opened={isNew} onClose={() => setNew(false)} title={words.new}>
        {isNew && (
          <NewKey
            onClose={() => setNew(false)}
            onMade={(made) => {
              setNew(false);
              setSecret(secretOf(made));
              void queries.invalidateQueries({ queryKey: KEYS });
            }}
          />
        )}
      </Modal>
      <SecretOnce secret={secret} onClose={() => setSecret(null)} />
    </>
  );
}

function NewKey({ onClose, onMade }: { onClose: () => void; onMade: (made: Schema<"NewAccessKey">) => void }) {
  const me = useMe();
  const [name, setName] = useState("");
  const [days, setDays] = useState("90");
  const [projects, setProjects] = useState<string[]>([]);
  const [actions, setActions] = useState<string[]>([]);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const choices = useQuery(projectsQuery).data ?? [];
  const create = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const scope = {
      ...(projects.length > 0 ? { projects } : {}),
      ...(actions.length > 0 ? { actions } : {}),
    };
    const expiresAt = days === "" ? null : new Date(Date.now() + Number(days) * 86_400_000).toISOString();
    const body = { name: name.trim(), expiresAt, ...(Object.keys(scope).length > 0 ? { scope } : {}) };
    try {
      onMade(await got(api.POST("/api/v1/access-keys", { body })));
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void create(event)}>
      <Stack gap="sm">
        <TextInput
          label={words.name}
          required
          data-autofocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={problemOf(error, "name")}
        />
        <Select
          label={words.expires}
          allowDeselect={false}
          data={Object.entries(words.expiries).map(([value, label]) => ({ value, label }))}
          value={days}
          onChange={(next) => setDays(next ?? "90")}
          error={problemOf(error, "expiresAt")}
        />
        <MultiSelect
          size="sm"
          label={words.projects}
          description={words.projectsHint}
          searchable
          data={choices.map((each) => each.name)}
          value={projects}
          onChange={setProjects}
          error={problemOf(error, "scope.projects")}
        />
        <MultiSelect
          size="sm"
          label={words.permissions}
          description={words.permissionsHint}
          searchable
          data={me?.permissions ?? []}
          value={actions}
          onChange={setActions}
          error={problemOf(error, "scope.actions")}
        />
        <Problems of={otherProblems(error, ["name", "expiresAt", "scope.projects", "scope.actions"])} />
        <Group justify="flex-end">
          <Button onClick={onClose}>{frame.shared.cancel}</Button>
          <Button type="submit" variant="filled" loading={isBusy}>
            {frame.shared.create}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
