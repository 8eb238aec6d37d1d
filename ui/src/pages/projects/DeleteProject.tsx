/** Deleting a project: what becomes of its workloads, and its name typed. */
import { Button, Group, Modal, Radio, Select, Stack, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api, got, type Schema } from "@/api/client";
import { projectsQuery } from "@/api/queries";
import { ifMatch } from "@/api/tagged";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { Loaded } from "@/components/states";
import { text as frame } from "@/text/frame";
import { text } from "@/text/projects";
import { projectQuery } from "./QuotaEditor";

interface Props {
  name: string | null;
  onClose: () => void;
  onDeleted?: () => void;
}

export function DeleteProject({ name, onClose, onDeleted }: Props) {
  return (
    <Modal opened={name !== null} onClose={onClose} title={name === null ? "" : text.remove.title(name)}>
      {name !== null && <Content name={name} onClose={onClose} onDeleted={onDeleted} />}
    </Modal>
  );
}

function Content({
  name,
  onClose,
  onDeleted,
}: {
  name: string;
  onClose: () => void;
  onDeleted?: (() => void) | undefined;
}) {
  const query = useQuery(projectQuery(name));
  const projects = useQuery(projectsQuery).data ?? [];
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const [choice, setChoice] = useState<Schema<"RemainingWorkloads"> | null>(null);
  const [target, setTarget] = useState<string | null>(null);
  const [typed, setTyped] = useState("");
  const remove = useMutation({
    mutationFn: (tag: string) =>
      got(
        api.DELETE("/api/v1/org-unit/projects/{project_id}", {
          params: {
            path: { project_id: name },
            header: ifMatch(tag),
            query: {
              ...(choice === null ? {} : { workloads: choice }),
              ...(choice === "move" && target !== null ? { to: target } : {}),
            },
          },
        }),
      ),
    onSuccess: () => {
      done(text.remove.done(name));
      for (const key of ["projects", "shares", "departments"]) void queries.invalidateQueries({ queryKey: [key] });
      onClose();
      onDeleted?.();
    },
    onError: async (error) => {
      refused(error);
      if (error instanceof ApiError && error.status === 412) await query.refetch();
    },
  });
  return (
    <Loaded query={query} height={160}>
      {({ value, tag }) => {
        const isDecided = value.workloads === 0 || choice === "delete" || (choice === "move" && target !== null);
        return (
          <Stack gap="sm">
            <p>{text.remove.hint}</p>
            <p>{text.remove.hasWork(value.workloads)}</p>
            {value.workloads > 0 && (
              <Radio.Group
                aria-label={text.remove.hasWork(value.workloads)}
                value={choice}
                onChange={(next) => setChoice(next as Schema<"RemainingWorkloads">)}
              >
                <Stack gap="xs">
                  {Object.entries(text.remove.choices).map(([key, label]) => (
                    <Radio key={key} value={key} label={label} />
                  ))}
                </Stack>
              </Radio.Group>
            )}
            {choice === "move" && (
              <Select
                label={text.remove.target}
                searchable
                data={projects
                  .filter((each) => each.name !== name && each.clusterId === value.clusterId)
                  .map((each) => each.name)}
                value={target}
                onChange={setTarget}
              />
            )}
            <TextInput
              label={frame.shared.mustType(name)}
              value={typed}
              autoComplete="off"
              onChange={(event) => setTyped(event.currentTarget.value)}
            />
            <Group justify="flex-end">
              <Button onClick={onClose}>{frame.shared.cancel}</Button>
              <Button
                variant="filled"
                color="red"
                disabled={isHeld || typed !== name || !isDecided}
                loading={remove.isPending}
                onClick={() => remove.mutate(tag)}
              >
                {frame.shared.delete}
              </Button>
            </Group>
          </Stack>
        );
      }}
    </Loaded>
  );
}
