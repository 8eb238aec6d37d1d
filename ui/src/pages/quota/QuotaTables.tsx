import { Link } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { ProjectName } from "@/components/ProjectName";
import { Empty } from "@/components/states";
import { gpus, percent, quota as quotaText } from "@/model/format";
import table from "@/pages/consumption/Consumption.module.css";
import { text } from "@/text/quota";
import classes from "./Quota.module.css";
import { lowest, type PoolQuota, ratio } from "./ratios";

const MOST = 10;

export function Meter({ value }: { value: number | null }) {
  if (value === null) return null;
  const within = Math.min(100, value);
  return (
    <span className={classes.meter} aria-hidden="true">
      <span className={value > 100 ? classes.beyond : undefined} style={{ width: `${within}%` }} />
    </span>
  );
}

const pending = (...filters: string[]) =>
  ({ to: "/workloads", search: { f: ["phase==Pending", ...filters] } as never }) as const;

export function PoolTable({ pools }: { pools: PoolQuota[] }) {
  const words = text.pools;
  const numbers = [words.capacity, words.quota, words.promised, words.allocated, words.used, words.pending];
  return (
    <Card title={words.title} flush>
      <div className={table.scroll}>
        <table className={table.table}>
          <thead>
            <tr>
              <th scope="col">{words.pool}</th>
              {numbers.map((each) => (
                <th key={each} scope="col" className={table.right}>
                  {each}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {pools.map((each) => {
              const promised = each.quota === null ? null : ratio(each.quota, each.capacity);
              const used = ratio(each.allocated, each.quota);
              return (
                <tr key={each.pool}>
                  <td>
                    <Link to="/node-pools">{each.pool}</Link>
                  </td>
                  <td className={table.right}>{quotaText(each.capacity)}</td>
                  <td className={table.right}>{quotaText(each.quota)}</td>
                  <td className={table.right}>
                    <Meter value={promised} />
                    {percent(promised)}
                  </td>
                  <td className={table.right}>{gpus(each.allocated)}</td>
                  <td className={table.right}>
                    <Meter value={used} />
                    {percent(used)}
                  </td>
                  <td className={table.right}>
                    <Link {...pending()}>{gpus(each.pending)}</Link>
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

export function LowestTable({ shares, kind }: { shares: Schema<"Share">[]; kind: "project" | "department" }) {
  const words = text.lowest;
  const rows = lowest(shares, kind, MOST);
  return (
    <Card title={kind === "project" ? words.projects : words.departments} flush>
      {rows.length === 0 ? (
        <Empty title={words.none} hint={words.noneHint} />
      ) : (
        <div className={table.scroll}>
          <table className={table.table}>
            <thead>
              <tr>
                <th scope="col">{words.name}</th>
                {[words.ratio, words.allocated, words.quota, words.pending, words.lent].map((each) => (
                  <th key={each} scope="col" className={table.right}>
                    {each}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((each) => (
                <tr key={each.name}>
                  <td>
                    {kind === "project" ? (
                      <ProjectName project={each.name} />
                    ) : (
                      <Link to="/departments" className={table.name} title={each.name}>
                        {each.name}
                      </Link>
                    )}
                  </td>
                  <td className={table.right}>
                    <Meter value={each.ratio} />
                    {percent(each.ratio)}
                  </td>
                  <td className={table.right}>{gpus(each.allocated)}</td>
                  <td className={table.right}>{quotaText(each.quota)}</td>
                  <td className={table.right}>
                    <Link
                      {...pending(kind === "project" ? `projectName==${each.name}` : `departmentName==${each.name}`)}
                    >
                      {gpus(each.pending)}
                    </Link>
                  </td>
                  <td className={table.right}>{gpus(each.lent)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
