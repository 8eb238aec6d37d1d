/** All figures of the accounts, with their total. */
import { IconArrowDown, IconArrowUp } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { type ReactNode, useMemo, useState } from "react";
import type { Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { Moment } from "@/components/Moment";
import { ProjectName } from "@/components/ProjectName";
import { Loading } from "@/components/states";
import { UNKNOWN } from "@/model/format";
import { text } from "@/text/consumption";
import { text as frame } from "@/text/frame";
import { amount, type Column, type Order, sorted } from "./amounts";
import classes from "./Consumption.module.css";
import type { GroupName, Wanted } from "./search";

const ROWS_MAX = 500;
const COLUMNS = Object.keys(text.columns).filter((each) => each !== "periodStart") as Column[];

interface Props {
  answer: Schema<"UsageAnswer"> | undefined;
  wanted: Wanted;
  tools: ReactNode;
  empty: ReactNode;
}

export function UsageTable({ answer, wanted, tools, empty }: Props) {
  const [order, setOrder] = useState<Order | null>(null);
  const rows = useMemo(() => sorted(answer?.rows ?? [], order), [answer, order]);
  const hasInterval = wanted.interval !== "none";
  const names: string[] = [...(hasInterval ? ["periodStart"] : []), ...wanted.groupBy];
  const head = (key: string, label: string, isNumber: boolean) => (
    <Header key={key} name={key} label={label} isNumber={isNumber} order={order} onOrder={setOrder} />
  );
  return (
    <Card title={text.table} aside={tools} flush>
      {answer === undefined ? (
        <Loading rows={6} />
      ) : rows.length === 0 ? (
        empty
      ) : (
        <>
          <section className={classes.scroll} tabIndex={0} aria-label={text.table}>
            <table className={classes.table}>
              <thead>
                <tr>
                  {hasInterval && head("periodStart", text.columns.periodStart, false)}
                  {wanted.groupBy.map((each) => head(each, text.groups[each], false))}
                  {COLUMNS.map((each) => head(each, text.columns[each], true))}
                </tr>
              </thead>
              <tbody>
                {rows.slice(0, ROWS_MAX).map((row, number) => (
                  <tr key={number}>
                    {hasInterval && (
                      <td>
                        <Moment at={row.periodStart} />
                      </td>
                    )}
                    {wanted.groupBy.map((each) => (
                      <td key={each}>
                        <Name row={row} group={each} />
                      </td>
                    ))}
                    {COLUMNS.map((each) => (
                      <td key={each} className={classes.right}>
                        {amount(row, each)}
                      </td>
                    ))}
                  </tr>
                ))}
              </tbody>
              <tfoot>
                <tr>
                  <td colSpan={names.length}>{text.total}</td>
                  {COLUMNS.map((each) => (
                    <td key={each} className={classes.right}>
                      {amount(answer.total, each)}
                    </td>
                  ))}
                </tr>
              </tfoot>
            </table>
          </section>
          {rows.length > ROWS_MAX && <p className={classes.note}>{text.rows(ROWS_MAX, rows.length)}</p>}
        </>
      )}
    </Card>
  );
}

function Name({ row, group }: { row: Schema<"UsageRow">; group: GroupName }) {
  const name = row[group];
  if (name == null || name === "") return <>{UNKNOWN}</>;
  if (group === "project") return <ProjectName project={name} />;
  const shown = (
    <span className={classes.name} title={name}>
      {name}
    </span>
  );
  if (group === "workload" && row.workloadId)
    return (
      <Link to="/workloads/$workload" params={{ workload: row.workloadId }}>
        {shown}
      </Link>
    );
  if (group === "node")
    return (
      <Link to="/nodes/$node" params={{ node: name }}>
        {shown}
      </Link>
    );
  return shown;
}

interface HeaderProps {
  name: string;
  label: string;
  isNumber: boolean;
  order: Order | null;
  onOrder: (order: Order | null) => void;
}

/** Numbers are sorted with the largest first; a third click goes back to the order of the answer. */
function Header({ name, label, isNumber, order, onOrder }: HeaderProps) {
  const isSorted = order?.by === name;
  const next = () => {
    if (!isSorted) return onOrder({ by: name, descending: isNumber });
    return order.descending === isNumber ? onOrder({ by: name, descending: !isNumber }) : onOrder(null);
  };
  return (
    <th
      scope="col"
      className={isNumber ? classes.right : undefined}
      aria-sort={isSorted ? (order.descending ? "descending" : "ascending") : undefined}
    >
      <button type="button" className={classes.sorter} onClick={next} title={frame.shared.sortBy(label)}>
        {label}
        {isSorted && (order.descending ? <IconArrowDown size={12} /> : <IconArrowUp size={12} />)}
      </button>
    </th>
  );
}
