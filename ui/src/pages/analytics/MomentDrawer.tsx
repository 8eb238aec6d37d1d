/** What lies behind a point: who held GPUs then, and what was decided. */
import { Button, Drawer, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, got, type Schema } from "@/api/client";
import { ProjectName } from "@/components/ProjectName";
import { Loaded } from "@/components/states";
import { gpus, moment } from "@/model/format";
import { iso } from "@/model/period";
import { text } from "@/text/analytics";
import { text as frame } from "@/text/frame";
import classes from "./Analytics.module.css";
import { usageOf } from "./data";
import { conditions, DECISION_NAMES, type Filters, USAGE_NAMES } from "./search";

interface Props {
  at: number | null;
  /** The time that a point stands for, in ms. */
  length: number;
  filters: Filters;
  onZoom: (from: number, to: number) => void;
  onClose: () => void;
}

const words = text.moment;
const SHORTEST_MS = 60_000;
const ROWS = 100;

export function MomentDrawer({ at, length, filters, onZoom, onClose }: Props) {
  const half = Math.max(length, SHORTEST_MS) / 2;
  const from = at === null ? 0 : Math.floor((at - half) / 1000) * 1000;
  const to = at === null ? 0 : Math.min(Math.ceil((at + half) / 1000) * 1000, Date.now());
  return (
    <Drawer
      opened={at !== null}
      onClose={onClose}
      position="right"
      size={460}
      title={words.title(moment(iso(from)), moment(iso(to)))}
      closeButtonProps={{ "aria-label": frame.shared.close }}
    >
      {at !== null && <Behind from={from} to={to} filters={filters} onZoom={onZoom} />}
    </Drawer>
  );
}

function Behind({
  from,
  to,
  filters,
  onZoom,
}: {
  from: number;
  to: number;
  filters: Filters;
  onZoom: Props["onZoom"];
}) {
  const usage = useQuery({
    queryKey: ["history", "held", from, to, filters],
    queryFn: () => usageOf({ from, to }, "workload,project,user", conditions(filters, USAGE_NAMES)),
  });
  const range = `at>=${iso(from)},at<=${iso(to)}`;
  const own = conditions(filters, DECISION_NAMES);
  const filterBy = own === undefined ? range : `${range},${own}`;
  const decisions = useQuery({
    queryKey: ["history", "decided", filterBy],
    queryFn: () => got(api.GET("/api/v1/decisions", { params: { query: { filterBy, limit: ROWS } } })),
  });
  const link = { f: filterBy.split(",") };
  return (
    <>
      <Group gap={8}>
        <Button size="xs" onClick={() => onZoom(from - (to - from) * 5, to + (to - from) * 5)}>
          {words.zoom}
        </Button>
        <Link to="/decisions" search={link}>
          {words.all}
        </Link>
      </Group>
      <h3 className={classes.heading}>{words.held}</h3>
      <p className={classes.hint}>{words.heldHint}</p>
      <Loaded query={usage} rows={4}>
        {(answer) => (
          <Holders rows={answer.rows} hours={(Date.parse(answer.end) - Date.parse(answer.start)) / 3_600_000} />
        )}
      </Loaded>
      <h3 className={classes.heading}>{words.decisions}</h3>
      <Loaded query={decisions} rows={4}>
        {(page) =>
          page.decisions.length === 0 ? (
            <p className={classes.hint}>{words.noDecisions}</p>
          ) : (
            <ul className={classes.feed}>
              {page.decisions.map((each) => (
                <li key={each.id}>
                  <time className={classes.when} dateTime={each.at}>
                    {new Date(each.at).toLocaleTimeString("sv-SE")}
                  </time>
                  <Link to="/workloads/$workload" params={{ workload: each.workloadId }}>
                    {each.workloadName}
                  </Link>{" "}
                  {each.message}
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </>
  );
}

function Holders({ rows, hours }: { rows: Schema<"UsageRow">[]; hours: number }) {
  const held = rows
    .filter((each) => each.gpuHoursAllocated > 0)
    .sort((a, b) => b.gpuHoursAllocated - a.gpuHoursAllocated);
  if (held.length === 0) return <p className={classes.hint}>{words.nobody}</p>;
  return (
    <>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{words.workload}</th>
            <th scope="col">{words.project}</th>
            <th scope="col" className={classes.right}>
              {words.gpus}
            </th>
          </tr>
        </thead>
        <tbody>
          {held.slice(0, ROWS).map((each) => (
            <tr key={each.workloadId}>
              <td className={classes.name} title={each.workload ?? ""}>
                <Link to="/workloads/$workload" params={{ workload: each.workloadId ?? "" }}>
                  {each.workload}
                </Link>
              </td>
              <td className={classes.name}>
                <ProjectName project={each.project ?? ""} />
              </td>
              <td className={classes.right}>{gpus(each.gpuHoursAllocated / hours)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {held.length > ROWS && <p className={classes.hint}>{words.more(held.length - ROWS)}</p>}
    </>
  );
}
