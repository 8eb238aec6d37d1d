/** A change, picked from what there is. */
import { Button, Checkbox, NumberInput, Select, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useState } from "react";
import type { OneChange } from "@/model/whatIf";
import { text } from "@/text/whatIf";
import { changeOf, type Draft, EMPTY, type Kind } from "./draft";
import type { Live } from "./live";
import classes from "./WhatIf.module.css";

const words = text.fields;
const KINDS = Object.entries(text.kinds).map(([value, label]) => ({ value, label }));
const choices = (of: Record<string, string>) => Object.entries(of).map(([value, label]) => ({ value, label }));

export function ChangeForm({ live, onAdd }: { live: Live; onAdd: (change: OneChange) => void }) {
  const [draft, setDraft] = useState<Draft>(EMPTY);
  const set = (change: Partial<Draft>) => setDraft({ ...draft, ...change });
  const change = changeOf(draft);
  return (
    <form
      className={classes.form}
      style={{ marginTop: 16 }}
      onSubmit={(event) => {
        event.preventDefault();
        if (change !== null) onAdd(change);
      }}
    >
      <Select
        label={text.add}
        data={KINDS}
        value={draft.kind}
        onChange={(kind) => kind !== null && setDraft({ ...EMPTY, kind: kind as Kind })}
        allowDeselect={false}
        w={210}
      />
      <Fields draft={draft} set={set} live={live} />
      <Button type="submit" disabled={change === null} leftSection={<IconPlus size={16} />}>
        {text.addButton}
      </Button>
    </form>
  );
}

interface FieldsProps {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  live: Live;
}

function Fields(props: FieldsProps) {
  switch (props.draft.kind) {
    case "quota":
    case "limit":
      return (
        <>
          <Owner {...props} />
          <Amount {...props} />
        </>
      );
    case "over_quota":
      return (
        <>
          <Owner {...props} />
          <Choice {...props} label={words.share} of={text.shares} />
        </>
      );
    case "withoutNode":
    case "cordoned":
      return <NodeField {...props} label={words.node} />;
    case "addNode":
      return (
        <>
          <NodeField {...props} label={words.like} />
          <Count {...props} label={words.count} />
        </>
      );
    case "addJob":
      return <NewJob {...props} />;
    case "withoutJob":
      return <JobField {...props} />;
    case "priority":
      return (
        <>
          <JobField {...props} />
          <NumberInput
            label={words.priority}
            value={props.draft.amount}
            onChange={(amount) => props.set({ amount })}
            w={110}
          />
        </>
      );
    case "later":
      return (
        <TextInput
          label={words.later}
          description={words.laterHint}
          value={props.draft.value}
          onChange={(event) => props.set({ value: event.currentTarget.value })}
          w={180}
        />
      );
    case "placement":
      return <Choice {...props} label={words.placement} of={text.placements} />;
    case "policy":
      return (
        <>
          <Select
            label={words.setting}
            data={choices(text.policies)}
            value={props.draft.name || null}
            onChange={(name) => props.set({ name: name ?? "" })}
            w={420}
            maw="100%"
          />
          <NumberInput
            label={words.value}
            value={props.draft.amount}
            onChange={(amount) => props.set({ amount })}
            w={110}
          />
        </>
      );
  }
}

function Owner({ draft, set, live }: FieldsProps) {
  const groups = [
    { group: words.projects, items: live.projects.map((each) => ({ value: `project.${each}`, label: each })) },
    { group: words.departments, items: live.departments.map((each) => ({ value: `department.${each}`, label: each })) },
  ];
  return (
    <Select
      label={words.owner}
      data={groups}
      value={draft.name || null}
      onChange={(name) => set({ name: name ?? "" })}
      searchable
      w={200}
    />
  );
}

function Amount({ draft, set }: FieldsProps) {
  return (
    <>
      <NumberInput
        label={words.gpus}
        value={draft.isUnlimited ? "" : draft.amount}
        onChange={(amount) => set({ amount })}
        min={0}
        disabled={draft.isUnlimited}
        w={110}
      />
      <Checkbox
        label={words.unlimited}
        checked={draft.isUnlimited}
        onChange={(event) => set({ isUnlimited: event.currentTarget.checked })}
        mb={8}
      />
    </>
  );
}

function Choice({ draft, set, label, of }: FieldsProps & { label: string; of: Record<string, string> }) {
  return (
    <Select
      label={label}
      data={choices(of)}
      value={draft.value || null}
      onChange={(value) => set({ value: value ?? "" })}
      w={210}
    />
  );
}

function NodeField({ draft, set, live, label }: FieldsProps & { label: string }) {
  return (
    <Select
      label={label}
      data={live.nodes}
      value={draft.name || null}
      onChange={(name) => set({ name: name ?? "" })}
      searchable
      w={200}
    />
  );
}

function Count({ draft, set, label }: FieldsProps & { label: string }) {
  return (
    <NumberInput
      label={label}
      value={draft.count}
      onChange={(count) => set({ count })}
      min={1}
      allowDecimal={false}
      w={110}
    />
  );
}

function JobField({ draft, set, live }: FieldsProps) {
  const jobs = live.jobs.map((each) => ({ value: each.id, label: `${each.name} (${each.project})` }));
  return (
    <Select
      label={words.job}
      data={jobs}
      value={draft.name || null}
      onChange={(name) => set({ name: name ?? "" })}
      searchable
      w={280}
      maw="100%"
    />
  );
}

function NewJob(props: FieldsProps) {
  const { draft, set, live } = props;
  return (
    <>
      <TextInput
        label={words.name}
        value={draft.job}
        onChange={(event) => set({ job: event.currentTarget.value })}
        w={150}
      />
      <Select
        label={words.project}
        data={live.projects}
        value={draft.name || null}
        onChange={(name) => set({ name: name ?? "" })}
        searchable
        w={180}
      />
      <NumberInput
        label={words.gpusEach}
        value={draft.amount}
        onChange={(amount) => set({ amount })}
        min={0}
        step={1}
        w={130}
      />
      <Count {...props} label={words.pods} />
      <Select
        label={words.jobKind}
        data={choices(text.jobKinds)}
        value={draft.value || "train"}
        onChange={(value) => set({ value: value ?? "" })}
        w={130}
      />
    </>
  );
}
