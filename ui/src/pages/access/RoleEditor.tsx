import { Button, Group, Modal, Stack, Switch, Textarea, TextInput } from "@mantine/core";
import { type FormEvent, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import { otherProblems, problemOf } from "@/model/problem";
import { text } from "@/text/access";
import { text as frame } from "@/text/frame";
import { cellsOf, PermissionGrid, permissionsOf } from "./PermissionGrid";
import { Problems } from "./parts";
import { useReread } from "./queries";

type Role = Schema<"Role">;
/** A role that is changed, or what a new one begins with. */
export interface Draft {
  id: number | null;
  name: string;
  description: string;
  enabled: boolean;
  permissions: Role["permissions"];
}

interface Props {
  draft: Draft | null;
  all: Role["permissions"];
  onClose: () => void;
  onSaved: (id: number) => void;
}

export function RoleEditor({ draft, all, onClose, onSaved }: Props) {
  return (
    <Modal
      opened={draft !== null}
      onClose={onClose}
      size="xl"
      title={draft?.id == null ? text.roles.new : text.roles.edit(draft.name)}
    >
      {draft && <Form draft={draft} all={all} onClose={onClose} onSaved={onSaved} />}
    </Modal>
  );
}

function Form({ draft, all, onClose, onSaved }: Props & { draft: Draft }) {
  const [name, setName] = useState(draft.name);
  const [description, setDescription] = useState(draft.description);
  const [enabled, setEnabled] = useState(draft.enabled);
  const [cells, setCells] = useState(() => cellsOf(draft.permissions));
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const isHeld = useWritesHeld();
  const reread = useReread();
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const body = { name: name.trim(), description, enabled, permissions: permissionsOf(cells) };
    try {
      const role =
        draft.id === null
          ? await got(api.POST("/api/v1/authorization/roles", { body }))
          : await got(
              api.PUT("/api/v1/authorization/roles/{role_id}", {
                params: { path: { role_id: String(draft.id) } },
                body,
              }),
            );
      done(draft.id === null ? text.roles.createdNow(role.name) : text.roles.saved(role.name));
      await reread();
      onSaved(role.id);
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void save(event)}>
      <Stack gap="sm">
        <TextInput
          label={text.roles.name}
          required
          data-autofocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={problemOf(error, "name")}
        />
        <Textarea
          size="sm"
          label={text.roles.description}
          autosize
          value={description}
          onChange={(event) => setDescription(event.currentTarget.value)}
          error={problemOf(error, "description")}
        />
        <Switch
          label={text.roles.enabled}
          description={text.roles.enabledHint}
          checked={enabled}
          onChange={(event) => setEnabled(event.currentTarget.checked)}
        />
        <PermissionGrid all={all} cells={cells} onChange={setCells} />
        <Problems of={otherProblems(error, ["name", "description"])} />
        <Group justify="flex-end">
          <Button onClick={onClose}>{frame.shared.cancel}</Button>
          <Button type="submit" variant="filled" loading={isBusy} disabled={isHeld}>
            {text.roles.save}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
