import { Button, Group, Menu, Modal, Select, Stack, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useMemo, useState } from "react";
import { call, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { CopyIcon } from "@/components/CopyText";
import { type Column, Grid } from "@/components/Grid";
import { useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { useRemoval } from "@/components/removal";
import { rowFacts } from "@/components/rowFacts";
import { type Secret, SecretOnce } from "@/components/SecretOnce";
import { Empty } from "@/components/states";
import { localRows } from "@/model/localRows";
import { otherProblems, problemOf } from "@/model/problem";
import { text } from "@/text/access";
import { text as frame } from "@/text/frame";
import classes from "./Access.module.css";
import { createRules, type Given, NewRules } from "./NewRules";
import { Name, Problems, RoleChips, RowMenu, State } from "./parts";
import { bySubject, type ProgramKind, programPath, programsQuery, rulesOfQuery, useReread } from "./queries";
import { RuleRows } from "./RuleRows";
import { newRow, rulesOf } from "./ruleRows";

type Program = Schema<"Application">;
const { programs: words } = text;
const FIELDS = {
  name: (row: Program) => row.name,
  clientId: (row: Program) => row.clientId,
  enabled: (row: Program) => row.enabled,
  lastLogin: (row: Program) => row.lastLogin,
  createdAt: (row: Program) => row.createdAt,
  createdBy: (row: Program) => row.createdBy,
};

function secretOf(made: Schema<"NewApplication">): Secret {
  return {
    title: words.secretTitle(made.name),
    hint: words.secretHint,
    values: [
      { label: words.clientId, value: made.clientId },
      { label: words.secret, value: made.secret },
    ],
  };
}

function columns(rules: Map<string, Schema<"AccessRule">[]> | undefined): Column<Program>[] {
  return [
    { key: "name", header: words.name, sort: "name", csv: (row) => row.name, render: (row) => <Name>{row.name}</Name> },
    {
      key: "clientId",
      header: words.clientId,
      csv: (row) => row.clientId,
      render: (row) => (
        <span className={classes.state}>
          <span className={classes.mono}>{row.clientId}</span>
          <CopyIcon value={row.clientId} label={`${words.clientId}: ${row.name}`} />
        </span>
      ),
    },
    { key: "roles", header: words.roles, render: (row) => <RoleChips rules={rules && (rules.get(row.id) ?? [])} /> },
    {
      key: "status",
      header: words.status,
      sort: "enabled",
      csv: (row) => (row.enabled ? words.enabled : words.disabled),
      render: (row) =>
        row.enabled ? <State is="on">{words.enabled}</State> : <State is="off">{words.disabled}</State>,
    },
    {
      key: "lastLogin",
      header: words.lastLogin,
      sort: "lastLogin",
      csv: (row) => row.lastLogin,
      render: (row) => (row.lastLogin ? <Moment at={row.lastLogin} /> : text.users.never),
    },
    {
      key: "created",
      header: words.created,
      sort: "createdAt",
      csv: (row) => row.createdAt,
      render: (row) => <Moment at={row.createdAt} />,
    },
    {
      key: "createdBy",
      header: words.createdBy,
      sort: "createdBy",
      optional: true,
      csv: (row) => row.createdBy,
      render: (row) => row.createdBy,
    },
    {
      key: "former",
      header: words.both,
      optional: true,
      csv: (row) => row.formerSecretUntil,
      render: (row) => <Moment at={row.formerSecretUntil} />,
    },
  ];
}

/** Applications or service accounts: programs with roles of their own. */
export function ProgramsTab({ kind }: { kind: ProgramKind }) {
  const noun = kind === "app" ? "application" : "service-account";
  const [state, setState] = useListState();
  const [isNew, setNew] = useState(false);
  const [renewed, setRenewed] = useState<Program | null>(null);
  const [secret, setSecret] = useState<Secret | null>(null);
  const [given, setGiven] = useState<Given | null>(null);
  const [mayCreate, mayUpdate, mayDelete] = [
    useMay(`${noun}.create`),
    useMay(`${noun}.update`),
    useMay(`${noun}.delete`),
  ];
  const isHeld = useWritesHeld();
  const reread = useReread();
  const removal = useRemoval(["access"]);
  const query = useQuery(programsQuery(kind));
  const shown =
    query.data &&
    localRows(
      query.data.filter((each) => !removal.isHidden(each.id)),
      state,
      FIELDS,
    );
  const found = useQuery(rulesOfQuery((shown?.rows ?? []).map((each) => each.id))).data;
  const rules = useMemo(() => found && bySubject(found), [found]);
  const setEnabled = async (row: Program, enabled: boolean) => {
    try {
      await call("PATCH", `${programPath(kind)}/${encodeURIComponent(row.id)}`, { enabled });
      done(enabled ? words.enabledNow(row.name) : words.disabledNow(row.name));
      await reread();
    } catch (error) {
      refused(error);
    }
  };
  const menu: Column<Program> = {
    key: "actions",
    header: "",
    align: "right",
    render: (row) => (
      <RowMenu name={row.name}>
        <Menu.Item component={Link} to="/access" search={{ tab: "rules", q: row.name } as never}>
          {text.users.rules}
        </Menu.Item>
        <Menu.Item onClick={() => setGiven({ type: kind, ids: [row.id] })}>{text.users.addRule}</Menu.Item>
        {mayUpdate && (
          <>
            <Menu.Item disabled={isHeld} onClick={() => setRenewed(row)}>
              {words.regenerate}
            </Menu.Item>
            <Menu.Item disabled={isHeld} onClick={() => void setEnabled(row, !row.enabled)}>
              {row.enabled ? words.disable : words.enable}
            </Menu.Item>
          </>
        )}
        {mayDelete && (
          <Menu.Item
            color="red"
            disabled={isHeld}
            onClick={() =>
              removal.remove([row.id], words.willDelete(row.name), () =>
                call("DELETE", `${programPath(kind)}/${encodeURIComponent(row.id)}`),
              )
            }
          >
            {words.delete}
          </Menu.Item>
        )}
      </RowMenu>
    ),
  };
  const all = [...columns(rules), menu];
  return (
    <>
      <p className={classes.dim}>{words[kind].hint}</p>
      <Grid
        label={kind === "app" ? text.tabs.applications : text.tabs.serviceAccounts}
        rows={shown?.rows}
        total={shown?.total ?? null}
        error={query.error}
        onRetry={() => void query.refetch()}
        columns={all}
        idOf={(row) => row.id}
        nameOf={(row) => row.name}
        state={state}
        onState={setState}
        card={(row) => rowFacts(all, row)}
        empty={<Empty title={words[kind].empty} />}
        tools={
          mayCreate && (
            <Button size="xs" leftSection={<IconPlus size={14} />} disabled={isHeld} onClick={() => setNew(true)}>
              {words[kind].new}
            </Button>
          )
        }
      />
      <Modal opened={isNew} onClose={() => setNew(false)} title={words[kind].new} size="lg">
        {isNew && <NewProgram kind={kind} onClose={() => setNew(false)} onSecret={setSecret} />}
      </Modal>
      <Modal
        opened={renewed !== null}
        onClose={() => setRenewed(null)}
        title={words.regenerateTitle(renewed?.name ?? "")}
      >
        {renewed && <NewSecret kind={kind} of={renewed} onClose={() => setRenewed(null)} onSecret={setSecret} />}
      </Modal>
      <NewRules given={given} onClose={() => setGiven(null)} />
      <SecretOnce secret={secret} onClose={() => setSecret(null)} />
    </>
  );
}

interface FormProps {
  kind: ProgramKind;
  onClose: () => void;
  onSecret: (secret: Secret) => void;
}

function NewProgram({ kind, onClose, onSecret }: FormProps) {
  const [name, setName] = useState("");
  const [rows, setRows] = useState(() => [newRow()]);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const reread = useReread();
  const create = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const made = await call<Schema<"NewApplication">>("POST", programPath(kind), { name: name.trim() });
      onSecret(secretOf(made));
      onClose();
      const rules = rulesOf([{ subjectId: made.id, subjectType: kind }], rows);
      const { failed } = rules.length > 0 ? await createRules(rules) : { failed: [] };
      if (failed.length > 0) refused(new Error(failed.join("\n")), text.users.rulesFailed(failed.length));
      await reread();
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
        <RuleRows rows={rows} onChange={setRows} />
        <Problems of={otherProblems(error, ["name"])} />
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

function NewSecret({ kind, of, onClose, onSecret }: FormProps & { of: Program }) {
  const [overlap, setOverlap] = useState("0");
  const [isBusy, setBusy] = useState(false);
  const reread = useReread();
  const renew = async () => {
    setBusy(true);
    try {
      const path = `${programPath(kind)}/${encodeURIComponent(of.id)}/secret?overlapSeconds=${overlap}`;
      onSecret(secretOf(await call<Schema<"NewApplication">>("POST", path)));
      onClose();
      await reread();
    } catch (error) {
      refused(error);
      setBusy(false);
    }
  };
  return (
    <Stack gap="sm">
      <p>{words.regenerateHint}</p>
      <Select
        label={words.overlap}
        allowDeselect={false}
        data={Object.entries(words.overlaps).map(([value, label]) => ({ value, label }))}
        value={overlap}
        onChange={(next) => setOverlap(next ?? "0")}
      />
      <Group justify="flex-end">
        <Button onClick={onClose}>{frame.shared.cancel}</Button>
        <Button variant="filled" loading={isBusy} onClick={() => void renew()}>
          {words.regenerate}
        </Button>
      </Group>
    </Stack>
  );
}
