import { ActionIcon } from "@mantine/core";
import { IconFileText } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Elapsed } from "@/components/Moment";
import { ProjectName } from "@/components/ProjectName";
import { percent } from "@/model/format";
import { isWaiting } from "@/model/status";
import { text } from "@/text/workloads";
import { endOf, gpuWords } from "./columns";
import type { Row } from "./reading";
import { StatusCell } from "./StatusCell";
import classes from "./Workloads.module.css";

/** A workload on a narrow screen. */
export function WorkloadCard({ row, menu }: { row: Row; menu: ReactNode }) {
  const from = isWaiting(row) ? (row.phaseSince ?? row.createdAt) : row.startedAt;
  return (
    <article className={classes.card}>
      <Link to="/workloads/$workload" params={{ workload: row.id }} className={classes.name} title={row.name}>
        {row.name}
      </Link>
      <div className={classes.cardButtons}>
        <ActionIcon
          component={Link}
          to={`/workloads/${row.id}`}
          search={{ tab: "log" } as never}
          variant="subtle"
          color="gray"
          size="lg"
          aria-label={`${text.log}: ${row.name}`}
        >
          <IconFileText size={18} />
        </ActionIcon>
        {menu}
      </div>
      <div className={classes.cardWhole}>
        <StatusCell row={row} lines={2} />
      </div>
      <div className={`${classes.cardLine} ${classes.cardWhole}`}>
        <ProjectName project={row.projectId} name={row.projectName} />
        <span>{`${gpuWords(row)} ${text.columns.gpus}`}</span>
        {from && (
          <span>
            <Elapsed from={from} to={isWaiting(row) ? null : endOf(row)} />
          </span>
        )}
        {row.measured?.gpuUtilization != null && (
          <span>{`${text.columns.utilization.replace("%", "")}${percent(row.measured.gpuUtilization)}`}</span>
        )}
      </div>
    </article>
  );
}
