import { ActionIcon, Menu, Popover, Tooltip, UnstyledButton } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { Column } from "@/components/Grid";
import { Moment } from "@/components/Moment";
import { ProjectName } from "@/components/ProjectName";
import { text } from "@/text/assets";
import { text as shared } from "@/text/frame";
import classes from "./Assets.module.css";
import { ASSETS, type AssetKey } from "./kinds";
import { type AssetRow, scopeWords } from "./rows";

export interface RowActions {
  isHeld: boolean;
  onEdit?: (row: AssetRow) => void;
  onDuplicate?: (row: AssetRow) => void;
  onDelete?: (row: AssetRow) => void;
  onUse?: (row: AssetRow) => void;
  onBrowse?: (row: AssetRow) => void;
}

const { columns: heads } = text;

const typeWords = (key: AssetKey, row: AssetRow): string =>
  ASSETS[key].types.find((each) => each.value === row.type)?.label ?? row.type;

export function columnsOf(key: AssetKey, actions: RowActions, project: string): Column<AssetRow>[] {
  const all: (Column<AssetRow> | false)[] = [
    {
      key: "name",
      header: heads.name,
      sort: "name",
      render: (row) => <Name row={row} actions={actions} />,
      csv: (row) => row.name,
    },
    ASSETS[key].types.length > 1 && {
      key: "type",
      header: heads.type,
      sort: "type",
      render: (row) => typeWords(key, row),
      csv: (row) => row.type,
    },
    key !== "volumes" && {
      key: "what",
      header: key === "configmaps" ? heads.keys : heads.what,
      render: (row) => (
        <span className={classes.what} title={row.what}>
          {row.what || shared.shared.unknown}
        </span>
      ),
      csv: (row) => row.what,
    },
    {
      key: "scope",
      header: key === "volumes" || key === "configmaps" ? heads.project : heads.scope,
      sort: "scope",
      render: (row) => <ScopeCell row={row} />,
      csv: (row) => scopeWords(row.scope),
    },
    key === "volumes" && {
      key: "size",
      header: heads.size,
      align: "right",
      render: (row) => <span title={text.sizeNote}>{row.size ?? shared.shared.unknown}</span>,
      csv: (row) => row.size,
    },
    key === "volumes" && {
      key: "access",
      header: heads.access,
      render: (row) => row.access ?? shared.shared.unknown,
      csv: (row) => row.access,
    },
    key !== "configmaps" && {
      key: "used",
      header: heads.used,
      render: (row) => <UsedBy row={row} />,
      csv: (row) => row.usedBy?.length,
    },
    key !== "configmaps" && {
      key: "status",
      header: heads.status,
      render: (row) => <StatusCell row={row} />,
      csv: (row) => row.status?.status,
    },
    project !== "" &&
      !ASSETS[key].isSecret &&
      key !== "volumes" &&
      key !== "configmaps" && {
        key: "permitted",
        header: heads.permitted,
        render: (row) => <Permitted row={row} />,
        csv: (row) => String(row.compliance?.compliance ?? ""),
      },
    {
      key: "createdBy",
      header: heads.createdBy,
      sort: "createdBy",
      render: (row) => row.createdBy,
      csv: (row) => row.createdBy,
    },
    {
      key: "updatedAt",
      header: heads.updatedAt,
      sort: "updatedAt",
      render: (row) => <Moment at={row.updatedAt} />,
      csv: (row) => row.updatedAt,
    },
    { key: "actions", header: "", align: "right", width: 40, render: (row) => <Actions row={row} actions={actions} /> },
  ];
  return all.filter((each) => each !== false);
}

function Name({ row, actions }: { row: AssetRow; actions: RowActions }) {
  const title = row.description === "" ? row.name : `${row.name} – ${row.description}`;
  if (actions.onEdit === undefined)
    return (
      <span className={classes.plain} title={title}>
        {row.name}
      </span>
    );
  return (
    <button type="button" className={classes.name} title={title} onClick={() => actions.onEdit!(row)}>
      {row.name}
    </button>
  );
}

function ScopeCell({ row }: { row: AssetRow }) {
  return row.scope.scope === "project" ? <ProjectName project={row.scope.project} /> : <>{scopeWords(row.scope)}</>;
}

function StatusCell({ row }: { row: AssetRow }) {
  if (row.status === null) return <>{shared.shared.unknown}</>;
  return <span title={row.status.message ?? row.status.status}>{row.status.status}</span>;
}

function Permitted({ row }: { row: AssetRow }) {
  if (row.compliance === null) return <>{shared.shared.unknown}</>;
  if (row.compliance.compliance) return <>{text.permitted}</>;
  return (
    <Tooltip label={row.compliance.reasons.join("; ")} multiline maw={360}>
      <span tabIndex={0}>{text.notPermitted}</span>
    </Tooltip>
  );
}

/** How many use it; opens who they are. */
function UsedBy({ row }: { row: AssetRow }) {
  if (row.usedBy === null || row.usedBy.length === 0) return <>{text.usedNone}</>;
  return (
    <Popover position="bottom-start" withinPortal shadow="md">
      <Popover.Target>
        <UnstyledButton c="var(--accent)" fz="inherit" aria-label={`${row.name}: ${text.used(row.usedBy.length)}`}>
          {row.usedBy.length}
        </UnstyledButton>
      </Popover.Target>
      <Popover.Dropdown>
        <div className={classes.uses}>
          {row.usedBy.map((each) =>
            each.workload === undefined ? (
              <span key={each.name}>{row.type === "claim" ? each.name : text.template(each.name)}</span>
            ) : (
              <Link key={each.workload} to="/workloads/$workload" params={{ workload: each.workload }}>
                {each.name}
              </Link>
            ),
          )}
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

function Actions({ row, actions }: { row: AssetRow; actions: RowActions }) {
  const { onEdit, onDuplicate, onDelete, onUse, onBrowse, isHeld } = actions;
  if (!onEdit && !onDuplicate && !onDelete && !onUse && !onBrowse) return null;
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="sm" aria-label={text.actions(row.name)}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {onUse && <Menu.Item onClick={() => onUse(row)}>{text.useIt}</Menu.Item>}
        {onBrowse && <Menu.Item onClick={() => onBrowse(row)}>{text.repositories}</Menu.Item>}
        {onEdit && <Menu.Item onClick={() => onEdit(row)}>{shared.shared.edit}</Menu.Item>}
        {onDuplicate && (
          <Menu.Item disabled={isHeld} onClick={() => onDuplicate(row)}>
            {text.duplicate}
          </Menu.Item>
        )}
        {onDelete && (
          <Menu.Item disabled={isHeld} color="red" onClick={() => onDelete(row)}>
            {shared.shared.delete}
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

/** A row on a narrow screen. */
export function AssetCard({ row, of: key, actions }: { row: AssetRow; of: AssetKey; actions: RowActions }) {
  return (
    <div className={classes.card}>
      <div className={classes.cardTop}>
        <Name row={row} actions={actions} />
        <Actions row={row} actions={actions} />
      </div>
      <span className={classes.what} title={row.what}>
        {[ASSETS[key].types.length > 1 ? typeWords(key, row) : "", row.what].filter((each) => each !== "").join(" · ")}
      </span>
      <span className={classes.hint}>
        <ScopeCell row={row} />
      </span>
    </div>
  );
}
