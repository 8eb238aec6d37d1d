import { Button } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { Empty } from "@/components/states";
import { gpus, moment, percent } from "@/model/format";
import { text } from "@/text/overview";
import { PartCard } from "./PartCard";
import classes from "./tables.module.css";

const { nodes: words } = text;
type Node = Schema<"NodeAnswer">;

interface Props {
  query: UseQueryResult<{ troubled: Node[]; rows: Node[] }>;
  count: number;
  className?: string | undefined;
}

/** Nodes in trouble first. */
export function NodesCard({ query, count, className }: Props) {
  return (
    <PartCard
      query={query}
      className={className}
      title={words.title}
      flush
      rows={3}
      aside={<Link to="/nodes">{words.all}</Link>}
    >
      {({ rows }) =>
        rows.length === 0 ? (
          <Empty
            title={words.empty}
            action={
              <Button component={Link} to="/welcome">
                {words.add}
              </Button>
            }
          />
        ) : (
          <>
            <table className={classes.table}>
              <caption className="visually-hidden">{words.title}</caption>
              <thead>
                <tr>
                  <th scope="col">{words.columns.node}</th>
                  <th scope="col" className={classes.number}>
                    {words.columns.total}
                  </th>
                  <th scope="col" className={classes.number}>
                    {words.columns.allocated}
                  </th>
                  <th scope="col" className={classes.number}>
                    {words.columns.utilization}
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.map((each) => (
                  <NodeRow key={each.id} node={each} />
                ))}
              </tbody>
            </table>
            {count > rows.length && (
              <div className={classes.more}>
                <Link to="/nodes">{words.more(count - rows.length)}</Link>
              </div>
            )}
          </>
        )
      }
    </PartCard>
  );
}

function NodeRow({ node }: { node: Node }) {
  const trouble = node.silentSince
    ? words.silent(moment(node.silentSince))
    : node.status !== "Ready"
      ? words.notReady
      : null;
  return (
    <tr>
      <td title={node.name}>
        <Link to="/nodes/$node" params={{ node: node.name }}>
          {node.name}
        </Link>
        {trouble !== null && <span className={classes.mark}>{trouble}</span>}
        {trouble === null && node.cordoned && <span className={classes.quietMark}>{words.cordoned}</span>}
      </td>
      <td className={classes.number}>{node.gpuInfo.gpuCount}</td>
      <td className={classes.number}>{gpus(node.gpuInfo.allocated)}</td>
      <td className={classes.number}>{percent(node.measured?.gpuUtilization)}</td>
    </tr>
  );
}
