import { Button, Group, Modal, Select, Stack, Text, TextInput } from "@mantine/core";
import { DateTimePicker } from "@mantine/dates";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, api, got } from "@/api/client";
import { departmentsQuery, projectsQuery } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { text as frame } from "@/text/frame";
import { text } from "@/text/reports";
import { bodyOf, type Draft, isWhole } from "./draft";
import classes from "./Reports.module.css";

const words = text.form;
const PERIODS = Object.entries(words.periods).map(([value, label]) => ({ value, label }));
const GROUPS = [
  { value: "", label: text.allGroups },
  ...Object.entries(text.groups).map(([value, label]) => ({ value, label })),
];
const TYPES = [{ value: "consumption", label: text.type }];

export function NewReport({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const [draft, setDraft] = useState<Draft>({
    name: "",
    description: "",
    period: "month",
    from: null,
    to: null,
    groupBy: "",
    project: "",
    department: "",
  });
  const set = (change: Partial<Draft>) => setDraft({ ...draft, ...change });
  const projects = useQuery(projectsQuery).data ?? [];
  const departments = useQuery(departmentsQuery).data ?? [];
  const isHeld = useWritesHeld();
  const make = useMutation({
    mutationFn: () => got(api.POST("/api/v1/org-unit/reports", { body: bodyOf(draft, Date.now()) })),
    onSuccess: (report) => {
      done(words.done(report.name));
      onMade();
    },
    onError: (error) => {
      if (!(error instanceof ApiError && error.of("name"))) refused(error);
    },
  });
  const nameProblem = make.error instanceof ApiError ? make.error.of("name")?.what : undefined;
  const canMake = isWhole(draft, Date.now());
  const names = (list: { name: string }[]) => [...new Set(list.map((each) => each.name))];
  return (
    <Modal opened onClose={onClose} title={words.title} size="lg">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          make.mutate();
        }}
      >
        <Stack gap="sm">
          <TextInput
            label={words.name}
            value={draft.name}
            onChange={(event) => set({ name: event.currentTarget.value })}
            error={nameProblem}
            required
            data-autofocus
          />
          <TextInput
            label={words.description}
            value={draft.description}
            onChange={(event) => set({ description: event.currentTarget.value })}
          />
          <div className={classes.pair}>
            <Select label={words.type} data={TYPES} value="consumption" allowDeselect={false} />
            <Select
              label={words.period}
              data={PERIODS}
              value={draft.period}
              onChange={(period) => period !== null && set({ period: period as Draft["period"] })}
              allowDeselect={false}
            />
            <Select
              className={classes.wide}
              label={words.groupBy}
              data={GROUPS}
              value={draft.groupBy}
              onChange={(groupBy) => set({ groupBy: (groupBy ?? "") as Draft["groupBy"] })}
              allowDeselect={false}
            />
          </div>
          {draft.period === "custom" && (
            <div className={classes.pair}>
              <DateTimePicker label={words.from} value={draft.from} onChange={(from) => set({ from })} />
              <DateTimePicker label={words.to} value={draft.to} onChange={(to) => set({ to })} />
            </div>
          )}
          {draft.period === "custom" && draft.from !== null && draft.to !== null && draft.to <= draft.from && (
            <Text size="xs" c="red" role="alert">
              {words.wrong}
            </Text>
          )}
          <div className={classes.pair}>
            <Select
              label={words.department}
              placeholder={words.all}
              data={names(departments)}
              value={draft.department || null}
              onChange={(department) => set({ department: department ?? "" })}
              clearable
              searchable
            />
            <Select
              label={words.project}
              placeholder={words.all}
              data={names(projects)}
              value={draft.project || null}
              onChange={(project) => set({ project: project ?? "" })}
              clearable
              searchable
            />
          </div>
          <Group justify="flex-end" gap={8}>
            <Button onClick={onClose}>{frame.shared.cancel}</Button>
            <Button type="submit" variant="filled" disabled={!canMake || isHeld} loading={make.isPending}>
              {words.make}
            </Button>
          </Group>
        </Stack>
      </form>
    </Modal>
  );
}
