/** Labels, taints, type and roles that administrators set on a node. */
import { ActionIcon, Button, Checkbox, Drawer, Group, Select, Stack, TextInput } from "@mantine/core";
import { IconPlus, IconTrash } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Schema } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { Loaded } from "@/components/states";
import { text as frame } from "@/text/frame";
import { text } from "@/text/nodes";
import { nodeQuery, useMark } from "./nodeMarks";
import { type MarkValues, markValuesOf, overridesOf, ROLE_LABELS, withMarks } from "./nodeState";
import classes from "./nodes.module.css";

type Node = Schema<"NodeAnswer">;
const EFFECTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

export function MarkDialog({ node, onClose }: { node: Node | null; onClose: () => void }) {
  return (
    <Drawer
      opened={node !== null}
      onClose={onClose}
      position="right"
      size={560}
      title={node === null ? "" : text.edit.title(node.name)}
    >
      {node !== null && <Content node={node} onClose={onClose} />}
    </Drawer>
  );
}

function Content({ node, onClose }: { node: Node; onClose: () => void }) {
  const query = useQuery(nodeQuery(node.name, node.clusterUuid));
  return <Loaded query={query}>{({ value }) => <Form key={value.name} node={value} onClose={onClose} />}</Loaded>;
}

function Form({ node, onClose }: { node: Schema<"NodeDetail">; onClose: () => void }) {
  const [values, setValues] = useState(() => markValuesOf(overridesOf(node)));
  const isHeld = useWritesHeld();
  const mark = useMark(onClose);
  const change = (some: Partial<MarkValues>) => setValues({ ...values, ...some });
  const set = overridesOf(node).labels;
  const reported = Object.entries(node.labels ?? {}).filter(([key]) => set[key] === undefined);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        mark.mutate({ node, change: (before) => withMarks(before, values), words: text.edit.saved(node.name) });
      }}
    >
      <Stack gap="md">
        <TextInput
          label={text.edit.type}
          description={text.edit.typeHint}
          value={values.type}
          onChange={(event) => change({ type: event.currentTarget.value })}
        />
        <Checkbox.Group
          label={text.edit.roles}
          description={text.edit.rolesHint}
          value={values.roles}
          onChange={(roles) => change({ roles })}
        >
          <Group mt="xs">
            {ROLE_LABELS.map((each) => (
              <Checkbox key={each} value={each} label={text.edit.roleNames[each]} />
            ))}
          </Group>
        </Checkbox.Group>
        <Labels values={values} onChange={change} />
        <Taints values={values} onChange={change} />
        {reported.length > 0 && (
          <div className={classes.part}>
            <h3>{text.edit.reported}</h3>
            <ul className={classes.marks}>
              {reported.map(([key, value]) => (
                <li key={key}>{`${key}=${value}`}</li>
              ))}
            </ul>
          </div>
        )}
        <Group justify="flex-end">
          <Button onClick={onClose}>{frame.shared.cancel}</Button>
          <Button type="submit" variant="filled" loading={mark.isPending} disabled={isHeld}>
            {frame.shared.save}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

interface PartProps {
  values: MarkValues;
  onChange: (change: Partial<MarkValues>) => void;
}

function Labels({ values, onChange }: PartProps) {
  const set = (number: number, row: [string, string]) =>
    onChange({ labels: values.labels.map((each, other) => (other === number ? row : each)) });
  return (
    <div className={classes.part}>
      <h3>{text.edit.labels}</h3>
      {values.labels.map(([key, value], number) => (
        <div key={number} className={classes.row}>
          <TextInput
            aria-label={text.edit.key}
            placeholder={text.edit.key}
            value={key}
            onChange={(event) => set(number, [event.currentTarget.value, value])}
          />
          <TextInput
            aria-label={text.edit.value}
            placeholder={text.edit.value}
            value={value}
            onChange={(event) => set(number, [key, event.currentTarget.value])}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={text.edit.removeLabel(key)}
            onClick={() => onChange({ labels: values.labels.filter((_, other) => other !== number) })}
          >
            <IconTrash size={16} />
          </ActionIcon>
        </div>
      ))}
      <Button
        size="xs"
        w="fit-content"
        leftSection={<IconPlus size={14} />}
        onClick={() => onChange({ labels: [...values.labels, ["", ""]] })}
      >
        {text.edit.addLabel}
      </Button>
    </div>
  );
}

function Taints({ values, onChange }: PartProps) {
  const set = (number: number, some: Partial<Schema<"NodeTaint">>) =>
    onChange({ taints: values.taints.map((each, other) => (other === number ? { ...each, ...some } : each)) });
  return (
    <div className={classes.part}>
      <h3>{text.edit.taints}</h3>
      {values.taints.map((each, number) => (
        <div key={number} className={classes.taint}>
          <TextInput
            aria-label={text.edit.key}
            placeholder={text.edit.key}
            value={each.key}
            onChange={(event) => set(number, { key: event.currentTarget.value })}
          />
          <TextInput
            aria-label={text.edit.value}
            placeholder={text.edit.value}
            value={each.value}
            onChange={(event) => set(number, { value: event.currentTarget.value })}
          />
          <Select
            aria-label={text.edit.effect}
            data={EFFECTS}
            value={each.effect}
            allowDeselect={false}
            onChange={(effect) => effect && set(number, { effect })}
          />
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={text.edit.removeTaint(each.key)}
            onClick={() => onChange({ taints: values.taints.filter((_, other) => other !== number) })}
          >
            <IconTrash size={16} />
          </ActionIcon>
        </div>
      ))}
      <Button
        size="xs"
        w="fit-content"
        leftSection={<IconPlus size={14} />}
        onClick={() => onChange({ taints: [...values.taints, { key: "", value: "", effect: "NoSchedule" }] })}
      >
        {text.edit.addTaint}
      </Button>
    </div>
  );
}
