import { Button, Checkbox, Drawer, NumberInput, Select, Stack, Switch, Textarea, TextInput } from "@mantine/core";
import { type UseFormReturnType, useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, call } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { text } from "@/text/workload";
import { changesOf, type EditForm, formErrors, formOf, impliedBy, KIND_PATHS } from "./edit";
import type { Workload } from "./queries";
import classes from "./Workload.module.css";

const words = text.edit;

/** Names of the request's fields in the form, for problems that the server finds. */
const FIELDS: Record<string, keyof EditForm> = {
  priorityClass: "priorityClass",
  preemptibility: "preemptible",
  backoffLimit: "backoffLimit",
  deadlineSeconds: "deadline",
  terminationGracePeriodSeconds: "grace",
  autoDeletionTimeAfterCompletionSeconds: "autoDelete",
  restartPolicy: "restartPolicy",
  completions: "completions",
  parallelism: "parallelism",
  labels: "labels",
  image: "image",
  compute: "gpu",
  args: "args",
  environmentVariables: "environment",
  nodePools: "nodePools",
};

function problemsByField(error: ApiError): Partial<Record<keyof EditForm, string>> {
  const found: Partial<Record<keyof EditForm, string>> = {};
  for (const each of error.problems) {
    const field = FIELDS[each.field?.split(".")[1] ?? ""];
    if (field !== undefined) found[field] = each.fix ? `${each.what} – ${each.fix}` : each.what;
  }
  return found;
}

interface Props {
  workload: Workload;
  opened: boolean;
  onClose: () => void;
}

/** The fields that can be changed after it was submitted. The server decides which of them now. */
export function EditDrawer({ workload, opened, onClose }: Props) {
  return (
    <Drawer opened={opened} onClose={onClose} position="right" size={480} title={words.title(workload.name)}>
      {opened && <EditFields workload={workload} onClose={onClose} />}
    </Drawer>
  );
}

function EditFields({ workload, onClose }: Omit<Props, "opened">) {
  const [before] = useState(() => formOf(workload));
  const form = useForm<EditForm>({ initialValues: before, validate: (values) => formErrors(values) });
  const [waitAnyway, setWaitAnyway] = useState(false);
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const save = useMutation({
    mutationFn: (spec: Record<string, unknown>) =>
      call<Workload>("PATCH", `/api/v1/workloads/${KIND_PATHS[workload.type]}/${workload.id}`, {
        spec,
        ...(waitAnyway ? { waitAnyway } : {}),
      }),
    onSuccess: (now) => {
      done([words.done(workload.name), ...(now?.warnings ?? [])].join(" – "));
      void queries.invalidateQueries({ queryKey: ["workloads"] });
      onClose();
    },
    onError: (error) => {
      const byField = error instanceof ApiError ? problemsByField(error) : {};
      form.setErrors(byField);
      if (!(error instanceof ApiError) || Object.keys(byField).length < error.problems.length) refused(error);
    },
  });
  const submit = form.onSubmit((values) => {
    const changed = changesOf(before, values, (workload.spec ?? {}) as Record<string, unknown>);
    if (Object.keys(changed).length === 0) return done(words.nothing);
    save.mutate(changed);
  });
  const isRunning = workload.runningPods > 0 && workload.type !== "Inference";
  return (
    <form onSubmit={submit}>
      <Stack gap="sm">
        <AtOnce form={form} type={workload.type} />
        <h3 className={classes.subtitle}>{words.atStart}</h3>
        {isRunning && <p className={classes.hint}>{words.atStartRunning}</p>}
        <AtStart form={form} disabled={isRunning} />
        <Checkbox
          label={words.waitAnyway}
          checked={waitAnyway}
          onChange={(event) => setWaitAnyway(event.currentTarget.checked)}
        />
        <p className={classes.hint}>{words.fixedHint}</p>
        <Button type="submit" variant="filled" loading={save.isPending} disabled={isHeld}>
          {words.save}
        </Button>
      </Stack>
    </form>
  );
}

type Form = Pick<UseFormReturnType<EditForm>, "getInputProps">;

function AtOnce({ form, type }: { form: Form; type: string }) {
  const implied = impliedBy(type);
  return (
    <>
      <h3 className={classes.subtitle}>{words.atOnce}</h3>
      <Stack gap="sm">
        <TextInput label={words.priority} {...form.getInputProps("priorityClass")} />
        <Switch label={words.preemptible} {...form.getInputProps("preemptible", { type: "checkbox" })} />
        <TextInput
          label={words.deadline}
          description={words.deadlineHint}
          placeholder={words.empty.none}
          {...form.getInputProps("deadline")}
        />
        <NumberInput
          label={words.backoff}
          min={0}
          max={100_000}
          placeholder={words.empty.retries(implied.retries)}
          allowDecimal={false}
          {...form.getInputProps("backoffLimit")}
        />
        <NumberInput
          label={words.grace}
          placeholder={words.empty.grace}
          min={0}
          allowDecimal={false}
          {...form.getInputProps("grace")}
        />
        <TextInput
          label={words.autoDelete}
          description={words.deadlineHint}
          placeholder={words.empty.kept}
          {...form.getInputProps("autoDelete")}
        />
        <Select
          label={words.restart}
          data={words.restarts}
          placeholder={words.empty.default(implied.restart)}
          clearable
          {...form.getInputProps("restartPolicy")}
        />
        {type === "Training" && (
          <>
            <NumberInput
              label={words.completions}
              placeholder={words.empty.default("1")}
              min={1}
              allowDecimal={false}
              {...form.getInputProps("completions")}
            />
            <NumberInput
              label={words.parallelism}
              placeholder={words.empty.default("1")}
              min={1}
              allowDecimal={false}
              {...form.getInputProps("parallelism")}
            />
          </>
        )}
        <Textarea
          label={words.labels}
          placeholder={words.empty.none}
          description={words.labelsHint}
          autosize
          minRows={2}
          {...form.getInputProps("labels")}
        />
      </Stack>
    </>
  );
}

function AtStart({ form, disabled }: { form: Form; disabled: boolean }) {
  return (
    <Stack gap="sm">
      <TextInput label={words.image} disabled={disabled} {...form.getInputProps("image")} />
      <TextInput label={words.gpus} placeholder={words.empty.none} disabled={disabled} {...form.getInputProps("gpu")} />
      <Textarea
        label={words.command}
        placeholder={words.empty.ofImage}
        description={words.commandHint}
        autosize
        minRows={2}
        disabled={disabled}
        {...form.getInputProps("args")}
      />
      <Textarea
        label={words.environment}
        placeholder={words.empty.none}
        description={words.environmentHint}
        autosize
        minRows={2}
        disabled={disabled}
        {...form.getInputProps("environment")}
      />
      <Textarea
        label={words.pools}
        placeholder={words.empty.pools}
        description={words.commandHint}
        autosize
        minRows={1}
        disabled={disabled}
        {...form.getInputProps("nodePools")}
      />
    </Stack>
  );
}
