import { Button, Drawer, Select } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconArrowsSplit2, IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import clsx from "clsx";
import { useState } from "react";
import { clustersQuery, useMay } from "@/api/queries";
import { Card } from "@/components/Card";
import { Page } from "@/components/Page";
import { Empty, Failed, Loading } from "@/components/states";
import { moment } from "@/model/format";
import { sumOfQuotas } from "@/model/lending";
import { text } from "@/text/projects";
import { DeleteProject } from "./DeleteProject";
import { HistoryChart } from "./HistoryChart";
import { PolicyDialog } from "./PolicyDialog";
import { ProjectForm } from "./ProjectForm";
import { ProjectGrid } from "./ProjectGrid";
import classes from "./ProjectsPage.module.css";
import { QuotaEditor } from "./QuotaEditor";
import { Ribbons } from "./Ribbons";
import { type PoolShares, usePoolShares } from "./shareData";
import { Warning } from "./Warning";

/** Who is owed, holds, lends and wants. */
export function ProjectsPage() {
  const { query, shares, cluster } = usePoolShares();
  const search = useSearch({ strict: false }) as { edit?: unknown; new?: unknown };
  const navigate = useNavigate();
  const set = (change: Record<string, unknown>) =>
    void navigate({ to: ".", replace: true, search: (before: object) => ({ ...before, ...change }) } as never);
  const editing = typeof search.edit === "string" && search.edit !== "" ? search.edit : null;
  const [form, setForm] = useState<string | null>(search.new === undefined ? null : "");
  const [removing, setRemoving] = useState<string | null>(null);
  const [policyOf, setPolicyOf] = useState<string | null>(null);
  const mayCreate = useMay("project.create");
  const isOneOfMany = (useQuery(clustersQuery).data?.length ?? 0) > 1;
  const isWide = useMediaQuery("(min-width: 1180px)", true);
  const close = () => set({ edit: undefined });
  const editor = editing !== null && shares !== undefined && (
    <QuotaEditor key={editing} name={editing} shares={shares} onClose={close} />
  );
  const newButton = mayCreate && (
    <Button leftSection={<IconPlus size={16} />} onClick={() => setForm("")}>
      {text.newProject}
    </Button>
  );
  return (
    <Page
      title={text.title}
      lead={shares && <Lead shares={shares} />}
      actions={
        <>
          {shares !== undefined && shares.pools.length > 1 && (
            <Select
              aria-label={text.pool}
              data={shares.pools}
              value={shares.pool}
              allowDeselect={false}
              onChange={(pool) => set({ pool: pool ?? undefined })}
            />
          )}
          <WhatIfLink />
          {newButton}
        </>
      }
    >
      {shares && <OverPool shares={shares} />}
      <div className={clsx(classes.columns, isWide && editor && classes.withEditor)}>
        <div className={classes.main}>
          <Card
            title={text.lending.title}
            note={shares && text.lending.asOf(moment(shares.asOf), isOneOfMany ? (cluster?.name ?? null) : null)}
          >
            {shares !== undefined ? (
              <Ribbons
                shares={shares.projects}
                capacity={shares.totals?.capacity ?? null}
                free={shares.totals?.free ?? null}
              />
            ) : query.isError ? (
              <Failed error={query.error} what={text.lending.away} onRetry={() => void query.refetch()} />
            ) : (
              <Loading height={182} />
            )}
          </Card>
          <Card flush label={text.title}>
            <ProjectGrid
              shares={shares}
              cluster={cluster?.uuid}
              editing={editing}
              actions={{
                editQuota: (name) => set({ edit: name }),
                edit: setForm,
                remove: setRemoving,
                viewPolicy: setPolicyOf,
              }}
              empty={<Empty title={text.noProjects} hint={text.noProjectsHint} action={newButton} />}
            />
          </Card>
          <HistoryChart cluster={cluster?.uuid} pool={shares?.pool} capacity={shares?.totals?.capacity ?? null} />
        </div>
        {isWide && editor && (
          <Card flush className={classes.side} label={text.editor.label(editing!)}>
            {editor}
          </Card>
        )}
      </div>
      {!isWide && (
        <Drawer
          opened={editing !== null}
          onClose={close}
          position="bottom"
          size="90%"
          withCloseButton={false}
          padding={0}
          attributes={{ content: { "aria-label": editing === null ? "" : text.editor.label(editing) } }}
        >
          {editor}
        </Drawer>
      )}
      <ProjectForm of={form} onClose={() => setForm(null)} />
      <DeleteProject name={removing} onClose={() => setRemoving(null)} />
      <PolicyDialog name={policyOf} onClose={() => setPolicyOf(null)} />
    </Page>
  );
}

function WhatIfLink() {
  const mayPlan = useMay("cluster.snapshot");
  if (!mayPlan) return null;
  return (
    <Button component={Link} to="/what-if" leftSection={<IconArrowsSplit2 size={16} />}>
      {text.whatIf}
    </Button>
  );
}

function Lead({ shares }: { shares: PoolShares }) {
  const pool = shares.pools.length > 1 ? shares.pool : null;
  return <>{text.lead(shares.projects.length, shares.totals?.capacity ?? null, sumOfQuotas(shares.projects), pool)}</>;
}

/** Quotas that add up to more than a pool has, for every pool. */
function OverPool({ shares }: { shares: PoolShares }) {
  const over = shares.allTotals
    .map((each) => {
      const inPool = shares.all.filter((one) => one.kind === "project" && one.nodePool === each.nodePool);
      return { pool: each.nodePool, capacity: each.capacity, sum: sumOfQuotas(inPool) };
    })
    .filter((each) => each.sum > each.capacity);
  if (over.length === 0) return null;
  return (
    <Warning state="over-pool">
      {over.map((each) => (
        <div key={each.pool}>{text.overPool(each.sum, each.capacity, each.pool)}</div>
      ))}
    </Warning>
  );
}
