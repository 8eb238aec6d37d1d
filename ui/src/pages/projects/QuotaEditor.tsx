/** The quota of one project in one node pool, with what it would do if it were saved now. */
import { ActionIcon, Button, Checkbox, Group, NumberInput, Select } from "@mantine/core";
import { IconX } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { ApiError, api, got, type Schema } from "@/api/client";
import { ifMatch, tagged } from "@/api/tagged";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { ProjectName } from "@/components/ProjectName";
import { Loaded } from "@/components/states";
import { moment, quota as quotaText } from "@/model/format";
import { sumOfQuotas } from "@/model/lending";
import { text as frame } from "@/text/frame";
import { text } from "@/text/projects";
import { Consequences, SharesBeforeAfter } from "./Consequences";
import { useWaiting, useWhatIf } from "./planning";
import classes from "./QuotaEditor.module.css";
import { poolOf, type QuotaValues, resourcesOf, settingsOf, valuesOf } from "./quotaChange";
import type { PoolShares } from "./shareData";
import { Warning } from "./Warning";

interface Props {
  name: string;
  shares: PoolShares;
  onClose: () => void;
}

export const projectQuery = (name: string) => ({
  queryKey: ["projects", "one", name],
  queryFn: () => tagged(api.GET("/api/v1/org-unit/projects/{project_id}", { params: { path: { project_id: name } } })),
});

export function QuotaEditor({ name, shares, onClose }: Props) {
  const query = useQuery(projectQuery(name));
  return (
    <section className={classes.editor} aria-label={text.editor.label(name)}>
      <div className={classes.head}>
        <h2>
          <ProjectName project={name} />
        </h2>
        <span>{text.editor.title}</span>
        <ActionIcon variant="subtle" color="gray" onClick={onClose} aria-label={frame.shared.close}>
          <IconX size={16} />
        </ActionIcon>
      </div>
      <Loaded query={query} height={320}>
        {(read) => <Form key={`${name}/${shares.pool}`} read={read} shares={shares} onClose={onClose} />}
      </Loaded>
    </section>
  );
}

type Read = { value: Schema<"Project">; tag: string };

function Form({ read, shares, onClose }: { read: Read; shares: PoolShares; onClose: () => void }) {
  const [start, setStart] = useState(read); // what the editor began with; the stream may bring a newer one
  const project = start.value;
  const [conflict, setConflict] = useState<Read | null>(null);
  const declared = (of: Read) => valuesOf(of.value.resources[poolOf(of.value.resources, shares.pool)]?.gpu);
  const before = declared(conflict ?? start);
  const [values, setValues] = useState<QuotaValues>(before);
  const isHeld = useWritesHeld();
  const settings = settingsOf(project.name, before, values);
  const isWrong = isNegative(values.quota) || isNegative(values.limit);
  const plan = useWhatIf(project.clusterId, shares.pool, { settings: isWrong ? [] : settings });
  const save = useSave(project.name, onClose, setConflict);
  useEffect(() => {
    if (settings.length === 0 && read.tag !== start.tag) {
      setStart(read);
      setValues(valuesOf(read.value.resources[poolOf(read.value.resources, shares.pool)]?.gpu));
    }
  }, [read, start.tag, settings.length, shares.pool]);
  const takeTheirs = () => {
    setStart(conflict!);
    setValues(before);
    setConflict(null);
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const base = conflict ?? start;
        const pool = base.value.resources[poolOf(base.value.resources, shares.pool)];
        save.mutate({ resources: resourcesOf(pool, shares.pool, values), tag: base.tag, values });
      }}
    >
      <div className={classes.part}>
        <Fields values={values} before={before} onChange={(change) => setValues({ ...values, ...change })} />
        <OverPool name={project.name} values={values} shares={shares} />
        {conflict !== null && (
          <Warning state="conflict">
            {text.editor.meanwhile(moment(conflict.value.updatedAt), quotaText(before.quota))}{" "}
            <Button size="compact-xs" onClick={takeTheirs}>
              {text.editor.takeTheirs}
            </Button>
          </Warning>
        )}
      </div>
      <div className={classes.part} aria-live="polite">
        <span className={classes.caption}>{text.editor.ifSaved}</span>
        <Plan plan={plan} cluster={project.clusterId} names={shares.projects.map((each) => each.name)} />
      </div>
      <div className={classes.foot}>
        <Button
          type="submit"
          variant="filled"
          loading={save.isPending}
          disabled={isHeld || isWrong || (settings.length === 0 && conflict === null)}
        >
          {text.editor.save}
        </Button>
        <Button onClick={onClose}>{frame.shared.cancel}</Button>
        <Link
          to="/what-if"
          search={(settings.length === 0 ? {} : { set: settings.length === 1 ? settings[0] : settings }) as never}
        >
          {text.editor.openWhatIf}
        </Link>
      </div>
    </form>
  );
}

interface Saving {
  resources: Schema<"PoolResources-Input">;
  tag: string;
  values: QuotaValues;
}

function useSave(name: string, onSaved: () => void, onConflict: (read: Read) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ resources, tag }: Saving) =>
      got(
        api.PATCH("/api/v1/org-unit/projects/{project_id}/resources", {
          params: { path: { project_id: name }, header: ifMatch(tag) },
          body: { resources: [resources] },
        }),
      ),
    onSuccess: (_, { values }) => {
      done(text.editor.saved(name, quotaText(values.quota)));
      void queries.invalidateQueries({ queryKey: ["projects"] });
      void queries.invalidateQueries({ queryKey: ["shares"] });
      onSaved();
    },
    onError: async (error) => {
      if (!(error instanceof ApiError && error.status === 412)) return refused(error);
      onConflict(await queries.fetchQuery({ ...projectQuery(name), staleTime: 0 }));
    },
  });
}

const isNegative = (amount: number | null): boolean => amount !== null && amount < 0;

interface FieldsProps {
  values: QuotaValues;
  before: QuotaValues;
  onChange: (change: Partial<QuotaValues>) => void;
}

function Fields({ values, before, onChange }: FieldsProps) {
  const was = (now: unknown, old: unknown, words: string) => (now === old ? undefined : text.editor.was(words));
  return (
    <>
      <div className={classes.fields}>
        <NumberInput
          label={text.editor.quota}
          min={0}
          step={1}
          clampBehavior="none"
          error={isNegative(values.quota) && text.form.least(0)}
          decimalScale={3}
          value={values.quota ?? ""}
          placeholder={frame.shared.unlimited}
          disabled={values.quota === null}
          onChange={(value) => typeof value === "number" && onChange({ quota: value })}
          description={was(values.quota, before.quota, quotaText(before.quota))}
          inputWrapperOrder={["label", "input", "description", "error"]}
        />
        <Select
          label={text.editor.weight}
          data={Object.entries(text.editor.weights).map(([value, label]) => ({ value, label }))}
          value={values.overQuota ?? ""}
          allowDeselect={false}
          onChange={(value) => onChange({ overQuota: (value || null) as QuotaValues["overQuota"] })}
          description={was(values.overQuota, before.overQuota, text.editor.weights[before.overQuota ?? ""]!)}
          inputWrapperOrder={["label", "input", "description", "error"]}
        />
        <NumberInput
          label={text.editor.limit}
          min={0}
          clampBehavior="none"
          error={isNegative(values.limit) && text.form.least(0)}
          decimalScale={3}
          value={values.limit ?? ""}
          placeholder={text.editor.noLimit}
          onChange={(value) => onChange({ limit: typeof value === "number" ? value : null })}
          description={was(values.limit, before.limit, quotaText(before.limit))}
          inputWrapperOrder={["label", "input", "description", "error"]}
        />
      </div>
      <Group>
        <Checkbox
          size="xs"
          label={text.editor.isUnlimited}
          checked={values.quota === null}
          onChange={(event) => onChange({ quota: event.currentTarget.checked ? null : (before.quota ?? 0) })}
        />
      </Group>
    </>
  );
}

function OverPool({ name, values, shares }: { name: string; values: QuotaValues; shares: PoolShares }) {
  const others = sumOfQuotas(shares.projects.filter((each) => each.name !== name));
  const sum = others + (values.quota ?? 0);
  if (shares.totals === null || sum <= shares.totals.capacity) return null;
  return <Warning state="over-pool">{text.wouldBeOver(sum, shares.totals.capacity)}</Warning>;
}

interface PlanProps {
  plan: ReturnType<typeof useWhatIf>;
  cluster: string;
  names: string[];
}

function Plan({ plan, cluster, names }: PlanProps) {
  const waiting = useWaiting(cluster).data ?? [];
  if (!plan.mayPlan) return <p>{text.editor.noRight}</p>;
  if (plan.error) return <Warning>{`${text.editor.notPlanned}: ${plan.error.message}`}</Warning>;
  if (plan.answer === undefined) return <p>{plan.isEmpty ? text.editor.asItIs : text.editor.planning}</p>;
  return (
    <div className={plan.isCurrent ? undefined : classes.old} data-plan={plan.isCurrent ? "current" : "old"}>
      <Consequences answer={plan.answer} waiting={waiting} />
      <SharesBeforeAfter answer={plan.answer} names={names} />
    </div>
  );
}
