import { Button, Group, Modal, MultiSelect, SegmentedControl, Stack, TagsInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import { otherProblems } from "@/model/problem";
import { text } from "@/text/access";
import { text as frame } from "@/text/frame";
import classes from "./Access.module.css";
import { Problems } from "./parts";
import { groupRulesQuery, type ProgramKind, programsQuery, useReread, userSearchQuery } from "./queries";
import { RuleRows } from "./RuleRows";
import { newRow, rulesOf } from "./ruleRows";

type SubjectType = Schema<"SubjectType">;
export interface Given {
  type: SubjectType;
  ids: string[];
  /** What is shown for the ids that were given. */
  labels?: Record<string, string>;
}

/** Rules for several subjects, roles and scopes at once. Each is created or refused on its own. */
export function NewRules({ given, onClose }: { given: Given | null; onClose: () => void }) {
  return (
    <Modal opened={given !== null} onClose={onClose} title={text.rules.createTitle} size="lg">
      {given !== null && <Form given={given} onClose={onClose} />}
    </Modal>
  );
}

/** Sends the rules; what was refused comes back as sentences. */
export async function createRules(payload: Schema<"AccessRuleRequest">[]): Promise<{ made: number; failed: string[] }> {
  const answer = await got(api.POST("/api/v1/authorization/access-rules/batch-create", { body: { payload } }));
  return { made: answer.succeeded.length, failed: answer.failed.map((each) => each.message) };
}

function Form({ given, onClose }: { given: Given; onClose: () => void }) {
  const [type, setType] = useState(given.type);
  const [ids, setIds] = useState(given.ids);
  const [rows, setRows] = useState(() => [newRow()]);
  const [problems, setProblems] = useState<string[]>([]);
  const [isBusy, setBusy] = useState(false);
  const isHeld = useWritesHeld();
  const reread = useReread();
  const rules = rulesOf(
    ids.map((subjectId) => ({ subjectId, subjectType: type })),
    rows,
  );
  const create = async () => {
    if (rules.length === 0) return setProblems([text.rules.missing]);
    setBusy(true);
    try {
      const { made, failed } = await createRules(rules);
      if (made > 0) done(text.rules.createdNow(made));
      setProblems(failed);
      void reread();
      if (failed.length === 0) onClose();
    } catch (error) {
      setProblems(otherProblems(error, []));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Stack gap="sm">
      <p className={classes.dim}>{text.rules.createHint}</p>
      <SegmentedControl
        size="xs"
        value={type}
        onChange={(next) => {
          setType(next as SubjectType);
          setIds([]);
        }}
        data={Object.entries(text.subjectTypes).map(([value, label]) => ({ value, label }))}
        aria-label={text.rules.type}
      />
      <SubjectChoice type={type} ids={ids} onChange={setIds} labels={given.labels ?? {}} />
      <RuleRows rows={rows} onChange={setRows} />
      <Problems of={problems} />
      <Group justify="flex-end">
        <Button onClick={onClose}>{frame.shared.cancel}</Button>
        <Button variant="filled" loading={isBusy} disabled={isHeld} onClick={() => void create()}>
          {text.rules.createCount(rules.length)}
        </Button>
      </Group>
    </Stack>
  );
}

interface ChoiceProps {
  type: SubjectType;
  ids: string[];
  onChange: (ids: string[]) => void;
  labels: Record<string, string>;
}

function SubjectChoice(props: ChoiceProps) {
  if (props.type === "user") return <UserChoice {...props} />;
  if (props.type === "group") return <GroupChoice {...props} />;
  return <ProgramChoice {...props} kind={props.type} />;
}

function UserChoice({ ids, onChange, labels }: ChoiceProps) {
  const [search, setSearch] = useState("");
  const [seen, setSeen] = useState(labels);
  const found = useQuery(userSearchQuery(search)).data ?? [];
  const known = { ...seen, ...Object.fromEntries(found.map((each) => [each.id, each.email])) };
  const offered = [...new Set([...found.map((each) => each.id), ...ids])];
  return (
    <MultiSelect
      size="sm"
      label={text.rules.subjects}
      searchable
      searchValue={search}
      onSearchChange={setSearch}
      data={offered.map((value) => ({ value, label: known[value] ?? value }))}
      value={ids}
      onChange={(next) => {
        setSeen(known);
        onChange(next);
      }}
    />
  );
}

function GroupChoice({ ids, onChange }: ChoiceProps) {
  const rules = useQuery(groupRulesQuery).data ?? [];
  return (
    <TagsInput
      size="sm"
      label={text.rules.groupName}
      description={text.rules.groupHint}
      data={[...new Set(rules.map((each) => each.subjectId))]}
      value={ids}
      onChange={onChange}
    />
  );
}

function ProgramChoice({ ids, onChange, kind }: ChoiceProps & { kind: ProgramKind }) {
  const programs = useQuery(programsQuery(kind)).data ?? [];
  return (
    <MultiSelect
      size="sm"
      label={text.rules.subjects}
      searchable
      data={programs.map((each) => ({ value: each.id, label: each.name }))}
      value={ids}
      onChange={onChange}
    />
  );
}
