import { ActionIcon, Button, MultiSelect, Select } from "@mantine/core";
import { IconPlus, IconX } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { text } from "@/text/access";
import classes from "./Access.module.css";
import { rolesQuery, usePlaces } from "./queries";
import type { ScopeType } from "./question";
import { newRow, type RuleRow } from "./ruleRows";

const SCOPES: ScopeType[] = ["project", "department", "cluster", "tenant"];

interface Props {
  rows: RuleRow[];
  onChange: (rows: RuleRow[]) => void;
}

/** Lines of a form: a role, and where it holds. */
export function RuleRows({ rows, onChange }: Props) {
  const roles = useQuery(rolesQuery).data ?? [];
  const { choices } = usePlaces();
  const change = (key: number, next: Partial<RuleRow>) =>
    onChange(rows.map((each) => (each.key === key ? { ...each, ...next } : each)));
  return (
    <>
      {rows.map((row) => (
        <div key={row.key} className={classes.line}>
          <Select
            className={classes.grow}
            label={text.rules.role}
            searchable
            data={roles
              .filter((each) => each.effectiveEnabled)
              .map((each) => ({ value: String(each.id), label: each.name }))}
            value={row.roleId}
            onChange={(roleId) => change(row.key, { roleId })}
          />
          <Select
            w={140}
            label={text.rules.scopeType}
            allowDeselect={false}
            data={SCOPES.map((value) => ({ value, label: text.scopeTypes[value] }))}
            value={row.scopeType}
            onChange={(type) => change(row.key, { scopeType: type as ScopeType, scopeIds: [] })}
          />
          {row.scopeType !== "tenant" && (
            <MultiSelect
              className={classes.grow}
              size="sm"
              label={text.rules.scopes}
              searchable
              data={choices(row.scopeType)}
              value={row.scopeIds}
              onChange={(scopeIds) => change(row.key, { scopeIds })}
            />
          )}
          {rows.length > 1 && (
            <ActionIcon
              variant="subtle"
              color="gray"
              size="lg"
              aria-label={text.rules.removeRow}
              onClick={() => onChange(rows.filter((each) => each.key !== row.key))}
            >
              <IconX size={16} />
            </ActionIcon>
          )}
        </div>
      ))}
      <div>
        <Button
          size="compact-sm"
          variant="subtle"
          leftSection={<IconPlus size={14} />}
          onClick={() => onChange([...rows, newRow()])}
        >
          {text.rules.addRow}
        </Button>
      </div>
    </>
  );
}
