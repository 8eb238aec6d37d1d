/** A list of rows: order, filters, columns, selection, pages, CSV. The server sorts, filters and pages. */
import { Checkbox } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import clsx from "clsx";
import { memo, type ReactNode, type RefObject, useMemo, useRef } from "react";
import type { ListState } from "@/model/filters";
import { text } from "@/text/frame";
import classes from "./Grid.module.css";
import { GridPages } from "./GridPages";
import { type FilterField, GridToolbar } from "./GridToolbar";
import { useRowKeys } from "./rowKeys";
import { Empty, Failed, Loading } from "./states";

export interface Column<Row> {
  /** Stable, for the address and saved views. */
  key: string;
  header: string;
  render: (row: Row) => ReactNode;
  /** The name that the API sorts by; absent: not sortable. */
  sort?: string;
  align?: "left" | "right" | "center";
  /** Not shown until it is chosen. */
  optional?: boolean;
  csv?: (row: Row) => string | number | null | undefined;
  width?: number | string;
}

export interface GridProps<Row> {
  /** For screen readers and file names. */
  label: string;
  rows: Row[] | undefined;
  /** All rows that fit, if that is known. */
  total?: number | null;
  hasMore?: boolean;
  error?: unknown;
  onRetry?: () => void;
  columns: Column<Row>[];
  idOf: (row: Row) => string;
  nameOf: (row: Row) => string;
  state: ListState;
  onState: (change: Partial<ListState>) => void;
  /** The reader is about to ask for this: the pointer is on it. */
  onSoon?: (change: Partial<ListState>) => void;
  /** Fields that can be filtered, with their choices. */
  filterFields?: FilterField[];
  onOpen?: (row: Row) => void;
  selected?: ReadonlySet<string>;
  onSelect?: (ids: Set<string>) => void;
  /** Shown in place of the toolbar while rows are selected. */
  bulk?: ReactNode;
  /** A row on a narrow screen. */
  card?: (row: Row) => ReactNode;
  /** All rows for the CSV file; without it, those that are shown. */
  allRows?: () => Promise<Row[]>;
  empty?: ReactNode;
  /** More of the toolbar. */
  tools?: ReactNode;
  /** The name under which views are saved; none: no views. */
  views?: string;
  onKey?: (key: string, row: Row) => void;
  rowClass?: (row: Row) => string | undefined;
  /** A second line of a row, over all columns. */
  below?: (row: Row) => ReactNode;
}

export function Grid<Row>(props: GridProps<Row>) {
  const { columns, state, rows } = props;
  const isNarrow = useMediaQuery("(max-width: 700px)");
  const root = useRef<HTMLElement>(null);
  const shown = useMemo(
    () => columns.filter((each) => (state.columns === null ? !each.optional : state.columns.includes(each.key))),
    [columns, state.columns],
  );
  const cursor = useRowKeys(root, rows, props);
  const isFiltered = state.search !== "" || state.filters.length > 0;
  return (
    <section ref={root} className={classes.grid} data-grid aria-label={props.label}>
      {props.bulk !== undefined && (props.selected?.size ?? 0) > 0 ? (
        <div className={classes.bulk} role="toolbar" aria-label={text.shared.selected(props.selected!.size)}>
          <strong>{text.shared.selected(props.selected!.size)}</strong>
          {props.bulk}
        </div>
      ) : (
        <GridToolbar {...props} />
      )}
      {rows === undefined ? (
        props.error ? (
          <Failed error={props.error} {...(props.onRetry ? { onRetry: props.onRetry } : {})} />
        ) : (
          <Loading rows={8} />
        )
      ) : rows.length === 0 ? (
        isFiltered ? (
          <Empty title={text.shared.noMatch} />
        ) : (
          (props.empty ?? <Empty title={text.shared.noRows} />)
        )
      ) : isNarrow && props.card ? (
        <ul className={classes.cards}>
          {rows.map((row) => (
            <li key={props.idOf(row)} className={classes.card}>
              {props.card!(row)}
            </li>
          ))}
        </ul>
      ) : (
        <Rows {...props} rows={rows} shown={shown} cursor={cursor} />
      )}
      <GridPages
        state={state}
        onState={props.onState}
        total={props.total ?? null}
        count={rows?.length ?? 0}
        hasMore={props.hasMore ?? false}
        onSoon={props.onSoon}
      />
    </section>
  );
}

function Rows<Row>(props: GridProps<Row> & { rows: Row[]; shown: Column<Row>[]; cursor: number }) {
  const { rows, shown, state, onState, selected, onSelect, idOf, nameOf } = props;
  const allSelected = selected !== undefined && rows.every((row) => selected.has(idOf(row)));
  const toggle = (ids: string[], on: boolean) => {
    const next = new Set(selected);
    for (const id of ids) on ? next.add(id) : next.delete(id);
    onSelect?.(next);
  };
  const latest = useRef({ toggle, onOpen: props.onOpen });
  latest.current = { toggle, onOpen: props.onOpen };
  return (
    <div className={classes.scroll} tabIndex={-1}>
      <table className={classes.table}>
        <caption className="visually-hidden">{props.label}</caption>
        <thead>
          <tr>
            {onSelect && (
              <th className={classes.check} scope="col">
                <Checkbox
                  size="xs"
                  checked={allSelected}
                  indeterminate={!allSelected && (selected?.size ?? 0) > 0}
                  onChange={(event) => toggle(rows.map(idOf), event.currentTarget.checked)}
                  aria-label={text.shared.selectAll}
                />
              </th>
            )}
            {shown.map((column) => (
              <Header
                key={column.key}
                column={column}
                state={state}
                onState={onState}
                {...(props.onSoon ? { onSoon: props.onSoon } : {})}
              />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, number) => {
            const id = idOf(row);
            return (
              <GridRow
                key={id}
                id={id}
                row={row}
                name={nameOf(row)}
                shown={shown as Column<unknown>[]}
                isCurrent={number === props.cursor}
                isSelected={onSelect === undefined ? undefined : (selected?.has(id) ?? false)}
                opens={props.onOpen !== undefined}
                className={props.rowClass?.(row)}
                latest={latest as RefObject<Latest>}
              />
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

interface Latest {
  toggle: (ids: string[], on: boolean) => void;
  onOpen: ((row: unknown) => void) | undefined;
}

interface RowProps {
  id: string;
  row: unknown;
  name: string;
  shown: Column<unknown>[];
  isCurrent: boolean;
  /** Undefined: rows cannot be selected. */
  isSelected: boolean | undefined;
  opens: boolean;
  className: string | undefined;
  /** What the list does now, without drawing its rows again. */
  latest: RefObject<Latest>;
}

/** Drawn again only if something about it is another: a list is read again every second, and most of it is as before. */
const GridRow = memo(function GridRow({
  id,
  row,
  name,
  shown,
  isCurrent,
  isSelected,
  opens,
  className,
  latest,
}: RowProps) {
  return (
    <tr
      data-row={id}
      className={clsx(isCurrent && classes.current, isSelected && classes.selected, opens && classes.opens, className)}
      onClick={(event) => {
        if (opens && !isControl(event.target)) latest.current.onOpen?.(row);
      }}
    >
      {isSelected !== undefined && (
        <td className={classes.check}>
          <input
            type="checkbox"
            className={classes.box}
            checked={isSelected}
            onChange={(event) => latest.current.toggle([id], event.currentTarget.checked)}
            aria-label={text.shared.selectRow(name)}
          />
        </td>
      )}
      {shown.map((column) => (
        <td key={column.key} style={{ textAlign: column.align }} data-column={column.key}>
          {column.render(row)}
        </td>
      ))}
    </tr>
  );
});

function Header<Row>({
  column,
  state,
  onState,
  onSoon,
}: {
  column: Column<Row>;
  state: ListState;
  onState: (change: Partial<ListState>) => void;
  onSoon?: (change: Partial<ListState>) => void;
}) {
  const isSorted = column.sort !== undefined && state.sort === column.sort;
  const order = isSorted ? (state.descending ? "descending" : "ascending") : undefined;
  const style = { textAlign: column.align, width: column.width } as const;
  if (column.sort === undefined)
    return (
      <th scope="col" style={style}>
        {column.header}
      </th>
    );
  const next: Partial<ListState> = !isSorted
    ? { sort: column.sort, descending: false }
    : state.descending
      ? { sort: null, descending: false }
      : { descending: true };
  return (
    <th scope="col" style={style} aria-sort={order}>
      <button
        type="button"
        className={classes.sorter}
        onClick={() => onState(next)}
        onPointerEnter={() => onSoon?.(next)}
        onFocus={() => onSoon?.(next)}
        title={text.shared.sortBy(column.header)}
      >
        {column.header}
        {order === "ascending" && <IconArrowUp size={12} aria-hidden="true" />}
        {order === "descending" && <IconArrowDown size={12} aria-hidden="true" />}
      </button>
    </th>
  );
}

/** Whether a click was meant for a control within the row, or ended a selection of text. */
function isControl(target: EventTarget): boolean {
  if (String(getSelection() ?? "") !== "") return true;
  return (
    target instanceof Element && target.closest("a, button, input, label, [role=menuitem], [role=dialog]") !== null
  );
}
