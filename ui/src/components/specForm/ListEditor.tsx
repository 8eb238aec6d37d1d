/** Rows that can be added and removed: variables, mounts, ports. */
import { ActionIcon, Button, Select } from "@mantine/core";
import { IconPlus, IconX } from "@tabler/icons-react";
import { type Fields, typed, valueAt } from "@/model/paths";
import { text } from "@/text/submit";
import { type FieldDescription, inWords, UNBOUND } from "./description";
import { BareField, Origin } from "./SpecField";
import { useSpecForm } from "./SpecForm";
import classes from "./SpecForm.module.css";

export function ListEditor({ field }: { field: FieldDescription }) {
  const form = useSpecForm();
  const items = (valueAt(form.values, field.path) as Fields[] | undefined) ?? [];
  const bound = form.boundAt(field.path);
  const problem = form.problemAt(field.path);
  const set = (next: Fields[]) => form.set(field.path, next);
  const given = form.givenItems(field.path);
  const canAdd = bound.canAdd && !bound.isLocked;
  return (
    <fieldset className={classes.list} data-field={field.path}>
      <legend className={classes.legend}>{field.label}</legend>
      {field.hint !== undefined && <p className={classes.hint}>{field.hint}</p>}
      {given.map(({ item, origin }, number) => (
        <p key={number} className={classes.given}>
          {inWords(item)} <span>{text.bound.itemFrom(origin)}</span>
        </p>
      ))}
      {items.map((item, number) => (
        <Item
          key={number}
          field={field}
          item={item}
          number={number}
          onChange={(next) => set(items.map((each, at) => (at === number ? next : each)))}
          onRemove={() => set(items.filter((_, at) => at !== number))}
        />
      ))}
      {problem !== undefined && <p className={classes.error}>{problem}</p>}
      <Origin bound={{ ...bound, given: undefined }} isSaid={items.length > 0} />
      {canAdd ? (
        <Button
          className={classes.add}
          size="compact-sm"
          leftSection={<IconPlus size={14} />}
          onClick={() => set([...items, { ...field.blank }])}
        >
          {text.list.add(field.item ?? "")}
        </Button>
      ) : (
        <p className={classes.hint}>{text.bound.noItems(bound.source ?? "")}</p>
      )}
    </fieldset>
  );
}

interface ItemProps {
  field: FieldDescription;
  item: Fields;
  number: number;
  onChange: (item: Fields) => void;
  onRemove: () => void;
}

function Item({ field, item, number, onChange, onRemove }: ItemProps) {
  const form = useSpecForm();
  const columns = (field.columns ?? []).filter((column) => column.isShown?.(item) ?? true);
  return (
    <div className={classes.item}>
      <div className={classes.columns}>
        {columns.map((column) =>
          column.control === "variant" ? (
            <Select
              key={column.path}
              label={column.label}
              data={[...(column.options ?? [])]}
              value={column.variantOf!(item)}
              onChange={(next) => next !== null && onChange(column.toVariant!(item, next))}
              allowDeselect={false}
            />
          ) : (
            <div key={column.path}>
              <BareField
                field={column}
                value={valueAt(item, column.path)}
                onChange={(value) => onChange(typed(item, column.path, value))}
                error={form.problemAt(`${field.path}.${number}.${column.path}`)}
                bound={UNBOUND}
                suggestions={suggestionsOf(column, item, form.suggestions)}
              />
            </div>
          ),
        )}
      </div>
      <ActionIcon
        className={classes.remove}
        variant="subtle"
        color="gray"
        onClick={onRemove}
        aria-label={text.list.remove(field.item ?? "", number + 1)}
      >
        <IconX size={16} />
      </ActionIcon>
    </div>
  );
}

function suggestionsOf(
  column: FieldDescription,
  item: Fields,
  known: Readonly<Record<string, readonly string[]>>,
): readonly string[] {
  const source = column.sourceOf?.(item) ?? column.source;
  return source === undefined ? [] : (known[source] ?? []);
}
