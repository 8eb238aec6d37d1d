/** One field: its control, what the server says about it, and what binds it. */
import {
  Autocomplete,
  NumberInput,
  PasswordInput,
  Select,
  Switch,
  TagsInput,
  Textarea,
  TextInput,
} from "@mantine/core";
import { IconLock } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { isEmpty, valueAt } from "@/model/paths";
import { goDuration } from "@/model/submission";
import { text } from "@/text/submit";
import { DurationInput } from "./DurationInput";
import { type Bound, type FieldDescription, inWords } from "./description";
import { ListEditor } from "./ListEditor";
import { useSpecForm } from "./SpecForm";
import classes from "./SpecForm.module.css";

/** A field of the specification itself. */
export function SpecField({ field }: { field: FieldDescription }) {
  const form = useSpecForm();
  if (field.control === "list") return <ListEditor field={field} />;
  if (field.control === "variant")
    return (
      <Select
        label={field.label}
        data={[...(field.options ?? [])]}
        value={field.variantOf!(form.values)}
        onChange={(next) => next !== null && form.replace?.(field.toVariant!(form.values, next))}
        allowDeselect={false}
      />
    );
  return (
    <BareField
      field={field}
      value={valueAt(form.values, field.path)}
      onChange={(value) => form.set(field.path, value)}
      error={form.problemAt(field.path)}
      bound={form.boundAt(field.path)}
      suggestions={field.source === undefined ? [] : (form.suggestions[field.source] ?? [])}
    />
  );
}

interface Props {
  field: FieldDescription;
  value: unknown;
  onChange: (value: unknown) => void;
  error: string | undefined;
  bound: Bound;
  suggestions: readonly string[];
}

type Write = (value: unknown) => string;
const asDuration: Write = (value) => (typeof value === "number" ? goDuration(value) : inWords(value));

/** What stands below a control: the value that counts if nothing is said, and the limits. */
export function Origin({ bound, isSaid, write = inWords }: { bound: Bound; isSaid: boolean; write?: Write }) {
  const words: string[] = [];
  if (bound.isLocked) words.push(text.bound.locked(bound.source ?? bound.origin ?? ""));
  else if (!isSaid && bound.origin !== undefined && !isEmpty(bound.given))
    words.push(text.bound.from(write(bound.given), bound.origin));
  const limits = limitsInWords(bound, write);
  if (!bound.isLocked && limits !== "") words.push(text.bound.limits(limits, bound.source ?? ""));
  if (words.length === 0) return null;
  return (
    <span className={bound.isLocked ? `${classes.origin} ${classes.locked}` : classes.origin}>
      {bound.isLocked && <IconLock size={12} aria-hidden="true" />}
      {words.join("; ")}
    </span>
  );
}

function limitsInWords({ min, max, step, options }: Bound, write: Write): string {
  const words: string[] = [];
  if (min !== undefined) words.push(text.bound.min(write(min)));
  if (max !== undefined) words.push(text.bound.max(write(max)));
  if (step !== undefined) words.push(text.bound.step(write(step)));
  if (options !== undefined) words.push(text.bound.options(options.join(", ")));
  return words.join(", ");
}

/** Hints stand below, so that the controls of a row are in line. */
const BELOW: ("label" | "input" | "description" | "error")[] = ["label", "input", "error", "description"];

const asText = (value: unknown): string =>
  value === undefined || value === null ? "" : Array.isArray(value) ? value.join(" ") : String(value);

/** A control without its place: used for fields of the specification and for those of items of lists. */
export function BareField({ field, value, onChange, error, bound, suggestions }: Props) {
  const shown = bound.isLocked ? bound.given : value;
  const common = {
    label: field.label,
    ...(field.hint === undefined ? {} : { description: field.hint }),
    error,
    inputWrapperOrder: BELOW,
    disabled: bound.isLocked,
    withAsterisk: field.isRequired === true || bound.isRequired,
    "data-field": field.path,
  };
  const given =
    !bound.isLocked && !isEmpty(bound.given) && !Array.isArray(bound.given)
      ? (field.control === "duration" ? asDuration : inWords)(bound.given)
      : undefined;
  const placeholder = given ?? field.placeholder;
  const hold = placeholder === undefined ? {} : { placeholder };
  const control = (): ReactNode => {
    switch (field.control) {
      case "number":
        return (
          <NumberInput
            {...common}
            {...hold}
            value={typeof shown === "number" || typeof shown === "string" ? shown : ""}
            onChange={(next) => onChange(next === "" ? undefined : next)}
            {...(field.min === undefined ? {} : { min: field.min })}
            {...(field.max === undefined ? {} : { max: field.max })}
            step={Number(bound.step ?? field.step ?? 1)}
            clampBehavior="none"
          />
        );
      case "switch":
        return (
          <Switch
            label={common.label}
            error={error}
            disabled={common.disabled}
            {...(field.hint === undefined ? {} : { description: field.hint })}
            data-field={field.path}
            checked={Boolean(shown ?? bound.given)}
            onChange={(event) =>
              onChange(event.currentTarget.checked ? true : bound.given === true ? false : undefined)
            }
          />
        );
      case "choice":
        return (
          <Select
            {...common}
            {...hold}
            data={field.options === undefined ? [...suggestions] : [...field.options]}
            value={isEmpty(shown) ? null : String(shown)}
            onChange={(next) => onChange(next ?? undefined)}
            clearable={!field.isRequired}
            searchable={(field.options?.length ?? suggestions.length) > 8}
          />
        );
      case "tags":
      case "names":
        return (
          <TagsInput
            {...common}
            {...(Array.isArray(shown) && shown.length > 0 ? {} : hold)}
            data={[...(bound.options ?? suggestions)]}
            value={Array.isArray(shown) ? shown.map(String) : []}
            onChange={(next) => onChange(next)}
            splitChars={field.control === "names" ? [",", " "] : []}
          />
        );
      case "duration":
        return (
          <DurationInput
            {...common}
            {...hold}
            {...(typeof value === "string" ? { error: text.bound.notDuration } : {})}
            value={shown}
            onChange={onChange}
          />
        );
      case "secret":
        return (
          <PasswordInput
            {...common}
            {...hold}
            value={asText(shown)}
            onChange={(event) => onChange(event.currentTarget.value)}
            autoComplete="new-password"
          />
        );
      case "area":
        return (
          <Textarea
            {...common}
            {...hold}
            value={asText(shown)}
            onChange={(event) => onChange(event.currentTarget.value)}
            autosize
            minRows={2}
            maxRows={12}
            spellCheck={false}
          />
        );
      case "suggest":
        return (
          <Autocomplete
            {...common}
            {...hold}
            data={[...new Set([...(bound.options ?? []), ...suggestions])]}
            value={asText(shown)}
            onChange={(next) => onChange(next)}
            spellCheck={false}
          />
        );
      default:
        return (
          <TextInput
            {...common}
            {...hold}
            value={asText(shown)}
            onChange={(event) => onChange(event.currentTarget.value)}
            spellCheck={false}
          />
        );
    }
  };
  return (
    <>
      {control()}
      <Origin bound={bound} isSaid={!isEmpty(value)} {...(field.control === "duration" ? { write: asDuration } : {})} />
    </>
  );
}
