import { Button, Group, Select, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";
import { stringify } from "yaml";
import { ApiError, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import { Card } from "@/components/Card";
import { Notice } from "@/components/Notice";
import { Page } from "@/components/Page";
import { Failed, Loading } from "@/components/states";
import { sentence } from "@/model/problem";
import { usePlaces } from "@/pages/access/queries";
import { text } from "@/text/policies";
import { Bindings } from "./Bindings";
import { type Placed, placed, readDocument, withFields } from "./document";
import classes from "./Policies.module.css";
import {
  type Place,
  type PolicyType,
  policiesQuery,
  policyQuery,
  putPolicy,
  SCOPES,
  type ScopeType,
  scopeId,
  TYPES,
} from "./queries";

const PolicyText = lazy(() => import("./PolicyText"));
const { editor: words } = text;

const SNIPPETS: [keyof typeof text.snippets, Record<string, unknown>][] = [
  ["gpus", { rules: { compute: { gpuDevicesRequest: { max: 4 } } } }],
  ["half", { rules: { compute: { gpu: { max: 0.5 } } } }],
  ["time", { defaults: { deadlineSeconds: 86_400 }, rules: { deadlineSeconds: { max: 86_400 } } }],
  ["registry", { rules: { image: { options: ["registry.example.com/*"] } } }],
  ["hostPath", { rules: { storage: { hostPath: { instances: { canAdd: false } } } } }],
  ["root", { rules: { security: { runAsUid: { min: 1 } } } }],
  [
    "cleanup",
    {
      defaults: { autoDeletionTimeAfterCompletionSeconds: 3600 },
      rules: { autoDeletionTimeAfterCompletionSeconds: { max: 3600 } },
    },
  ],
];

/** A policy that is there, or a new one. */
export function PolicyEditor({ place }: { place: Place | null }) {
  const query = useQuery({
    ...policyQuery(place ?? { type: "training", scope: "tenant", id: "" }),
    enabled: place !== null,
  });
  if (place === null) return <Form place={null} policy={null} />;
  if (query.isError)
    return (
      <Page title={words.editTitle("")}>
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      </Page>
    );
  if (query.data === undefined)
    return (
      <Page title={words.editTitle("")}>
        <Loading rows={10} />
      </Page>
    );
  return <Form place={place} policy={query.data} key={query.data.meta?.id} />;
}

function textOf(policy: Schema<"PolicyAnswer"> | null): string {
  return policy?.policy ? stringify(policy.policy) : "";
}

function Form({ place, policy }: { place: Place | null; policy: Schema<"PolicyAnswer"> | null }) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const mayWrite = useMay("policy.write");
  const isHeld = useWritesHeld();
  const [type, setType] = useState<PolicyType>(place?.type ?? "training");
  const [scope, setScope] = useState<ScopeType>(place?.scope ?? "project");
  const [id, setId] = useState(place?.id ?? "");
  const [name, setName] = useState(policy?.meta?.name ?? "");
  const [source, setSource] = useState(() => textOf(policy));
  const [answer, setAnswer] = useState(policy);
  const [problems, setProblems] = useState<Placed[]>([]);
  const [isChecked, setChecked] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [goTo, setGoTo] = useState<{ line: number } | null>(null);
  const read = readDocument(source);
  const shown = read.problems.length > 0 ? read.problems : problems;
  const here: Place = { type, scope, id: scope === "tenant" ? "" : id };
  const change = (next: string) => {
    setSource(next);
    setProblems([]);
    setChecked(false);
  };
  const send = async (onlyCheck: boolean) => {
    if (read.document === null) return;
    if (scope !== "tenant" && id === "") return setProblems([{ line: null, what: words.choose, fix: null }]);
    setBusy(true);
    setProblems([]);
    setChecked(false);
    try {
      const made = await putPolicy(here, name.trim(), read.document, onlyCheck);
      setAnswer(made);
      setChecked(onlyCheck);
      if (onlyCheck) return;
      done(words.saved(name.trim()));
      await queries.invalidateQueries({ queryKey: ["policy"] });
      void navigate({ to: "/policies", search: {} } as never);
    } catch (error) {
      const known = error instanceof ApiError && error.problems.length > 0 ? error.problems : null;
      setProblems(known ? placed(source, known) : [{ line: null, what: String(error), fix: null }]);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Page
      title={place === null ? words.newTitle : words.editTitle(policy?.meta?.name ?? "")}
      lead={mayWrite ? words.running : words.readOnly}
      trail={<Link to="/policies">{words.back}</Link>}
      actions={
        mayWrite && (
          <>
            <Button disabled={isHeld || read.document === null} loading={isBusy} onClick={() => void send(true)}>
              {words.check}
            </Button>
            <Button
              variant="filled"
              disabled={isHeld || read.document === null || name.trim() === ""}
              loading={isBusy}
              onClick={() => void send(false)}
            >
              {words.save}
            </Button>
          </>
        )
      }
    >
      {place === null && (
        <ScopeChoice
          type={type}
          scope={scope}
          id={id}
          onType={setType}
          onScope={(next) => {
            setScope(next);
            setId("");
          }}
          onId={setId}
        />
      )}
      <div className={classes.split}>
        <div className={classes.side}>
          <TextInput
            label={words.name}
            description={words.nameHint}
            required
            readOnly={!mayWrite}
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
          <Card title={words.document} note={words.documentHint}>
            <div className={classes.editor}>
              <Suspense fallback={<Loading height={280} />}>
                <PolicyText
                  value={source}
                  onChange={change}
                  label={words.document}
                  readOnly={!mayWrite}
                  wrongLines={shown.flatMap((each) => each.line ?? [])}
                  goTo={goTo}
                />
              </Suspense>
            </div>
            {mayWrite && (
              <Group gap={8} mt={12} className={classes.snippets}>
                <span className={classes.dim}>{words.insert}</span>
                {SNIPPETS.map(([key, fields]) => (
                  <Button
                    key={key}
                    size="compact-xs"
                    disabled={read.document === null}
                    onClick={() => change(withFields(source, fields))}
                  >
                    {text.snippets[key]}
                  </Button>
                ))}
              </Group>
            )}
          </Card>
        </div>
        <div className={classes.side}>
          <Existing place={here} isNew={place === null} />
          {shown.length > 0 && <ProblemList problems={shown} isSyntax={read.document === null} onLine={setGoTo} />}
          {isChecked && shown.length === 0 && (
            <Notice tone="good" title={words.checked} onClose={() => setChecked(false)} />
          )}
          {read.document !== null && (
            <Card title={words.preview} note={words.previewNote}>
              <Bindings document={read.document} source={text.binding.thisPolicy} />
            </Card>
          )}
          {answer !== null && (
            <Card title={words.effective} note={words.effectiveNote}>
              <Bindings document={answer.effective as Record<string, unknown>} />
            </Card>
          )}
        </div>
      </div>
    </Page>
  );
}

/** A scope has one policy of a type: the page says so before it is replaced. */
function Existing({ place, isNew }: { place: Place; isNew: boolean }) {
  const policies = useQuery(policiesQuery).data ?? [];
  const there = policies.some(
    (each) => each.type === place.type && each.meta.scope === place.scope && scopeId(each.meta) === place.id,
  );
  if (!isNew || !there) return null;
  return (
    <Notice tone="careful" title={words.exists}>
      <Link to="/policies" search={{ edit: place.type, scope: place.scope, id: place.id || undefined } as never}>
        {words.openIt}
      </Link>
    </Notice>
  );
}

interface ListProps {
  problems: readonly Placed[];
  isSyntax: boolean;
  onLine: (line: { line: number }) => void;
}

function ProblemList({ problems, isSyntax, onLine }: ListProps) {
  return (
    <Notice tone="bad" title={isSyntax ? words.syntax : words.problems(problems.length)}>
      <ul className={classes.problems}>
        {problems.map((each, number) => (
          <li key={number}>
            {each.line !== null && (
              <>
                <button type="button" onClick={() => onLine({ line: each.line! })}>
                  {words.line(each.line)}
                </button>{" "}
              </>
            )}
            {sentence(each)}
          </li>
        ))}
      </ul>
    </Notice>
  );
}

interface ChoiceProps {
  type: PolicyType;
  scope: ScopeType;
  id: string;
  onType: (type: PolicyType) => void;
  onScope: (scope: ScopeType) => void;
  onId: (id: string) => void;
}

function ScopeChoice({ type, scope, id, onType, onScope, onId }: ChoiceProps) {
  const { choices } = usePlaces();
  return (
    <div className={classes.choices}>
      <Select
        label={words.type}
        allowDeselect={false}
        data={TYPES.map((value) => ({ value, label: text.types[value] }))}
        value={type}
        onChange={(next) => onType(next as PolicyType)}
      />
      <Select
        label={words.scopeType}
        allowDeselect={false}
        data={SCOPES.map((value) => ({ value, label: text.scopes[value] }))}
        value={scope}
        onChange={(next) => onScope(next as ScopeType)}
      />
      {scope !== "tenant" && (
        <Select
          label={words.scope}
          placeholder={words.choose}
          searchable
          data={choices(scope)}
          value={id || null}
          onChange={(next) => onId(next ?? "")}
        />
      )}
    </div>
  );
}
