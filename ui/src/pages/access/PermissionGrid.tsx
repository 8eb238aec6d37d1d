import { Checkbox } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { Fragment } from "react";
import type { Schema } from "@/api/client";
import { text } from "@/text/access";
import classes from "./Access.module.css";
import { neededCells, type Resource, type Verb } from "./question";

export type Cells = ReadonlySet<string>;
const VERBS: Verb[] = ["read", "update", "create", "delete"];
const GROUPS = Object.keys(text.roles.groups) as (keyof typeof text.roles.groups)[];

export function cellsOf(rows: readonly Pick<Schema<"GridRow">, "resourceType" | "actions">[]): Set<string> {
  return new Set(rows.flatMap((row) => row.actions.map((each) => `${row.resourceType} ${each}`)));
}

/** Cells that have an effect only together are set and cleared together. */
export function toggled(cells: Cells, resource: Resource, verb: Verb): Set<string> {
  const next = new Set(cells);
  const isOn = !cells.has(`${resource} ${verb}`);
  for (const each of neededCells(resource, verb)) isOn ? next.add(each) : next.delete(each);
  return next;
}

export function permissionsOf(cells: Cells): { resourceType: Resource; actions: Verb[] }[] {
  const rows = new Map<Resource, Verb[]>();
  for (const cell of cells) {
    const [resource, verb] = cell.split(" ") as [Resource, Verb];
    rows.set(resource, [...(rows.get(resource) ?? []), verb]);
  }
  return [...rows].map(([resourceType, actions]) => ({ resourceType, actions }));
}

interface Props {
  /** Every cell there is: the rows of the role that may do everything. */
  all: readonly Schema<"GridRow">[];
  cells: Cells;
  onChange?: (cells: Set<string>) => void;
}

/** View, edit, create and delete for each kind of thing. */
export function PermissionGrid({ all, cells, onChange }: Props) {
  return (
    <table className={classes.permissions}>
      <thead>
        <tr>
          <th scope="col">{text.roles.entity}</th>
          {VERBS.map((verb) => (
            <th key={verb} scope="col">
              {text.verbs[verb]}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {GROUPS.map((group) => (
          <Fragment key={group}>
            <tr>
              <th scope="rowgroup" colSpan={5} className={classes.group}>
                {text.roles.groups[group]}
              </th>
            </tr>
            {all
              .filter((row) => row.groupId === group)
              .map((row) => (
                <tr key={row.resourceType}>
                  <th scope="row">{row.displayName}</th>
                  {VERBS.map((verb) => (
                    <td key={verb}>
                      {row.actions.includes(verb) && (
                        <CellMark row={row} verb={verb} cells={cells} onChange={onChange} />
                      )}
                    </td>
                  ))}
                </tr>
              ))}
          </Fragment>
        ))}
      </tbody>
    </table>
  );
}

interface MarkProps {
  row: Schema<"GridRow">;
  verb: Verb;
  cells: Cells;
  onChange: ((cells: Set<string>) => void) | undefined;
}

function CellMark({ row, verb, cells, onChange }: MarkProps) {
  const isOn = cells.has(`${row.resourceType} ${verb}`);
  if (onChange)
    return (
      <Checkbox
        size="xs"
        checked={isOn}
        onChange={() => onChange(toggled(cells, row.resourceType, verb))}
        aria-label={text.roles.cell(text.verbs[verb], row.displayName)}
      />
    );
  return isOn ? (
    <IconCheck size={16} className={classes.on} aria-label={text.roles.yes} />
  ) : (
    <span className={classes.dim} role="img" aria-label={text.roles.no}>
      ·
    </span>
  );
}
