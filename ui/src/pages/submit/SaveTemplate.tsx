import { Button, Group, Modal, Stack, TextInput } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api, got } from "@/api/client";
import { done, refused } from "@/components/answers";
import { EMPTY_SCOPE, type Scope, ScopeFields, scopeMeta } from "@/components/specForm/ScopeFields";
import type { Fields } from "@/model/paths";
import { text as shared } from "@/text/frame";
import { text } from "@/text/submit";

/** What belongs to one workload only, and cannot be in a template. */
const OF_ONE = ["after", "workdir", "array", "template"];

export function SaveTemplate({ spec, project, onClose }: { spec: Fields; project: string; onClose: () => void }) {
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [scope, setScope] = useState<Scope>({ ...EMPTY_SCOPE, scope: "project", project });
  const [error, setError] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const queries = useQueryClient();
  const save = async () => {
    setBusy(true);
    const values = Object.fromEntries(Object.entries(spec).filter(([field]) => !OF_ONE.includes(field)));
    try {
      const meta = { name, description, ...scopeMeta(scope) };
      await got(api.POST("/api/v1/asset/workload-template", { body: { meta, spec: values } as never }));
      await queries.invalidateQueries({ queryKey: ["assets"] });
      done(text.templateSaved(name));
      onClose();
    } catch (problem) {
      if (problem instanceof ApiError) setError(problem);
      refused(problem);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Modal opened onClose={onClose} title={text.saveTemplate} closeButtonProps={{ "aria-label": shared.shared.close }}>
      <Stack gap="sm">
        <TextInput
          label={text.templateName}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={error?.of("meta.name")?.what}
          data-autofocus
          withAsterisk
        />
        <TextInput
          label={text.templateDescription}
          value={description}
          onChange={(event) => setDescription(event.currentTarget.value)}
        />
        <ScopeFields value={scope} onChange={setScope} error={error?.of("meta.scope")?.what} />
        <Group justify="flex-end">
          <Button onClick={onClose}>{shared.shared.cancel}</Button>
          <Button variant="filled" onClick={() => void save()} loading={isBusy} disabled={name === ""}>
            {shared.shared.save}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
