import { ActionIcon, Button, Checkbox, Menu, Popover, Select, Stack, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconColumns3, IconDownload, IconFilter, IconSearch, IconX } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { csvOf, saveText } from "@/model/download";
import { type Filter, OPERATORS, type Operator } from "@/model/filters";
import { text } from "@/text/frame";
import { refused } from "./answers";
import type { GridProps } from "./Grid";
import classes from "./Grid.module.css";
import { GridViews } from "./GridViews";

export interface FilterField {
  field: string;
  label: string;
  /** The values there are; without them, any text. */
  choices?: string[];
  operators?: Operator[];
}

export function GridToolbar<Row>(props: GridProps<Row>) {
  const { state, onState, columns, filterFields = [] } = props;
  return (
    <div className={classes.toolbar}>
      <SearchField value={state.search} onChange={(search) => onState({ search })} />
      {state.filters.map((each, number) => (
        <FilterChip
          key={number}
          filter={each}
          label={filterFields.find((field) => field.field === each.field)?.label ?? each.field}
          onRemove={() => onState({ filters: state.filters.filter((_, other) => other !== number) })}
        />
      ))}
      {filterFields.length > 0 && (
        <AddFilter fields={filterFields} onAdd={(filter) => onState({ filters: [...state.filters, filter] })} />
      )}
      {state.filters.length > 1 && (
        <Button variant="subtle" size="compact-xs" onClick={() => onState({ filters: [], search: "" })}>
          {text.shared.clear}
        </Button>
      )}
      {props.tools}
      <span className={classes.space} />
      {props.views !== undefined && <GridViews name={props.views} />}
      <Menu closeOnItemClick={false} position="bottom-end">
        <Menu.Target>
          <Button size="xs" leftSection={<IconColumns3 size={14} />}>
            {text.shared.columns}
          </Button>
        </Menu.Target>
        <Menu.Dropdown mah={420} style={{ overflowY: "auto" }}>
          {columns.map((each) => (
            <Menu.Item key={each.key} component="div" py={4}>
              <Checkbox
                size="xs"
                label={each.header}
                checked={isShown(state.columns, each)}
                onChange={(event) =>
                  onState({ columns: toggled(columns, state.columns, each.key, event.currentTarget.checked) })
                }
              />
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      <Button size="xs" leftSection={<IconDownload size={14} />} onClick={() => void saveRows(props)}>
        {text.shared.csv}
      </Button>
    </div>
  );
}

function isShown(chosen: string[] | null, column: { key: string; optional?: boolean }): boolean {
  return chosen === null ? !column.optional : chosen.includes(column.key);
}

function toggled(
  columns: { key: string; optional?: boolean }[],
  chosen: string[] | null,
  key: string,
  on: boolean,
): string[] {
  return columns.filter((each) => (each.key === key ? on : isShown(chosen, each))).map((each) => each.key);
}

async function saveRows<Row>(props: GridProps<Row>): Promise<void> {
  try {
    const rows = props.allRows ? await props.allRows() : (props.rows ?? []);
    const columns = props.columns.filter((each) => each.csv !== undefined);
    const content = csvOf(
      columns.map((each) => each.header),
      rows.map((row) => columns.map((each) => each.csv!(row))),
    );
    saveText(`${props.label.toLowerCase().replaceAll(" ", "-")}.csv`, content, "text/csv");
  } catch (error) {
    refused(error);
  }
}

function SearchField({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const soon = useDebouncedCallback(onChange, 250);
  return (
    <TextInput
      className={classes.search}
      type="search"
      size="xs"
      leftSection={<IconSearch size={14} />}
      placeholder={text.shared.searchIn}
      aria-label={text.shared.searchIn}
      value={typed}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        soon(event.currentTarget.value);
      }}
    />
  );
}

function FilterChip({ filter, label, onRemove }: { filter: Filter; label: string; onRemove: () => void }) {
  return (
    <span className={classes.chip}>
      {`${label} ${filter.operator === "==" ? "is" : filter.operator} ${filter.value}`}
      <ActionIcon
        variant="transparent"
        color="gray"
        size="xs"
        onClick={onRemove}
        aria-label={`${text.shared.clear}: ${label}`}
      >
        <IconX size={12} />
      </ActionIcon>
    </span>
  );
}

function AddFilter({ fields, onAdd }: { fields: FilterField[]; onAdd: (filter: Filter) => void }) {
  const [isOpen, setOpen] = useState(false);
  const [field, setField] = useState(fields[0]!.field);
  const [operator, setOperator] = useState<Operator>("==");
  const [value, setValue] = useState("");
  const chosen = fields.find((each) => each.field === field) ?? fields[0]!;
  const add = (given: string) => {
    if (given.trim() === "") return;
    onAdd({ field: chosen.field, operator, value: given.trim() });
    setValue("");
    setOpen(false);
  };
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-start" shadow="md" trapFocus>
      <Popover.Target>
        <Button size="xs" leftSection={<IconFilter size={14} />} onClick={() => setOpen(!isOpen)}>
          {text.shared.filter}
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            add(value);
          }}
        >
          <Stack gap="xs" w={240}>
            <Select
              size="xs"
              aria-label={text.shared.filter}
              data={fields.map((each) => ({ value: each.field, label: each.label }))}
              value={chosen.field}
              onChange={(next) => next && setField(next)}
              comboboxProps={{ withinPortal: false }}
            />
            <Select
              size="xs"
              aria-label={text.shared.operator}
              data={(chosen.operators ?? [...OPERATORS]).map((each) => ({
                value: each,
                label: text.shared.operators[each],
              }))}
              value={operator}
              onChange={(next) => next && setOperator(next as Operator)}
              comboboxProps={{ withinPortal: false }}
            />
            {chosen.choices ? (
              <Select
                size="xs"
                searchable
                aria-label={chosen.label}
                data={chosen.choices}
                value={null}
                onChange={(next) => next && add(next)}
                comboboxProps={{ withinPortal: false }}
                placeholder={chosen.label}
              />
            ) : (
              <TextInput
                size="xs"
                aria-label={chosen.label}
                value={value}
                onChange={(event) => setValue(event.currentTarget.value)}
              />
            )}
            <Button type="submit" size="xs" variant="filled" disabled={value.trim() === "" && !chosen.choices}>
              {text.shared.filter}
            </Button>
          </Stack>
        </form>
      </Popover.Dropdown>
    </Popover>
  );
}
