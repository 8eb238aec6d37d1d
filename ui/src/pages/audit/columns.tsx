import type { Schema } from "@/api/client";
import type { Column } from "@/components/Grid";
import type { FilterField } from "@/components/GridToolbar";
import { Moment } from "@/components/Moment";
import { UNKNOWN } from "@/model/format";
import { text } from "@/text/audit";
import classes from "./Audit.module.css";
import { actionWord, Result } from "./Result";

type AuditEntry = Schema<"AuditEntry">;
type Name = keyof typeof text.columns;

function plain(key: Name, optional = false): Column<AuditEntry> {
  const value = (row: AuditEntry) => row[key] as string | number | null | undefined;
  return {
    key,
    header: text.columns[key],
    sort: key,
    optional,
    csv: value,
    render: (row) => (
      <span className={classes.name} title={String(value(row) ?? "")}>
        {value(row) === "" ? UNKNOWN : (value(row) ?? UNKNOWN)}
      </span>
    ),
  };
}

export const COLUMNS: Column<AuditEntry>[] = [
  { ...plain("timestamp"), render: (row) => <Moment at={row.timestamp} /> },
  plain("subject"),
  plain("subject_type", true),
  { ...plain("action"), render: (row) => actionWord(row.action) },
  plain("entity_type"),
  plain("entity_name"),
  { ...plain("result"), render: (row) => <Result result={row.result} /> },
  { ...plain("source_ip"), render: (row) => row.source_ip || text.ownMachine },
  { ...plain("id"), align: "right" },
  plain("entity_id", true),
  plain("http_method", true),
  { ...plain("http_status_code", true), align: "right" },
  plain("url", true),
  plain("request_id", true),
];

const ENTITIES = [
  "access-key",
  "access-rule",
  "application",
  "claim",
  "cluster",
  "credential",
  "department",
  "identity-provider",
  "node",
  "node-pool",
  "policy",
  "price",
  "project",
  "role",
  "service-account",
  "setting",
  "subscription",
  "user",
  "webhook",
  "workload",
];

export const FILTERS: FilterField[] = [
  { field: "subject", label: text.columns.subject },
  { field: "action", label: text.columns.action, choices: Object.keys(text.actions), operators: ["==", "!="] },
  { field: "entity_type", label: text.columns.entity_type, choices: ENTITIES, operators: ["==", "!="] },
  { field: "entity_name", label: text.columns.entity_name },
  { field: "entity_id", label: text.columns.entity_id, operators: ["=="] },
  { field: "result", label: text.columns.result, choices: ["Succeeded", "Failed"], operators: ["=="] },
  { field: "source_ip", label: text.columns.source_ip },
  { field: "subject_type", label: text.columns.subject_type, choices: ["User", "App"], operators: ["=="] },
  { field: "url", label: text.columns.url },
  { field: "request_id", label: text.columns.request_id, operators: ["=="] },
];
