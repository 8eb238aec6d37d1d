import { Button, Drawer } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { ApiError, api, got, type Schema } from "@/api/client";
import { sharesQuery, useMay, useProjectColour } from "@/api/queries";
import { Card } from "@/components/Card";
import { FairShareBar, ShareLegend } from "@/components/FairShareBar";
import { Moment } from "@/components/Moment";
import { Page } from "@/components/Page";
import { ProjectDot } from "@/components/ProjectName";
import { StatusBadge } from "@/components/StatusBadge";
import { Empty, Failed, Loaded, Loading } from "@/components/states";
import { gpus, quota, UNKNOWN } from "@/model/format";
import type { Share } from "@/model/lending";
import { sentence } from "@/model/problem";
import { text } from "@/text/projects";
import { RuleTable, useProjectRules } from "./AccessTab";
import { DeleteProject } from "./DeleteProject";
import { HistoryChart } from "./HistoryChart";
import { PolicyDialog } from "./PolicyDialog";
import { ProjectForm } from "./ProjectForm";
import classes from "./ProjectPage.module.css";
import { ProjectWorkloads } from "./ProjectWorkloads";
import { limitsOf, poolsOf } from "./projectColumns";
import { projectQuery, QuotaEditor } from "./QuotaEditor";
import { type PoolShares, scaleOf, sharesIn } from "./shareData";
import { Warning } from "./Warning";

/** One project: its bar, its work, who uses it, its limits and its past. */
export function ProjectPage() {
  const { project: name } = useParams({ strict: false }) as { project: string };
  const query = useQuery(projectQuery(name));
  if (query.data !== undefined) return <Content project={query.data.value} />;
  return (
    <Page title={name} tab={text.one.tab}>
      {query.error instanceof ApiError && query.error.status === 404 ? (
        <Empty title={text.one.notThere} action={<Link to="/projects">{text.one.trail}</Link>} />
      ) : query.isError ? (
        <Failed error={query.error} onRetry={() => void query.refetch()} />
      ) : (
        <Loading height={400} />
      )}
    </Page>
  );
}

function Content({ project }: { project: Schema<"Project"> }) {
  const navigate = useNavigate();
  const search = useSearch({ strict: false }) as { pool?: unknown };
  const shares = useQuery(sharesQuery(project.clusterId));
  const pools = shares.data && sharesIn(shares.data, search.pool);
  const [form, setForm] = useState<string | null>(null);
  const [removing, setRemoving] = useState<string | null>(null);
  const [policyOf, setPolicyOf] = useState<string | null>(null);
  const [isEditing, setEditing] = useState(false);
  const mayChange = useMay("project.update");
  const mayDelete = useMay("project.delete");
  return (
    <Page
      title={project.name}
      trail={<Link to="/projects">{text.one.trail}</Link>}
      chips={
        <>
          <ProjectDot project={project.name} />
          <StatusBadge phase={project.status.phase === "Ready" ? "Running" : "Pending"} word={project.status.phase} />
        </>
      }
      lead={project.description || undefined}
      actions={
        <>
          {mayChange && <Button onClick={() => setEditing(true)}>{text.one.editQuota}</Button>}
          {mayChange && <Button onClick={() => setForm(project.name)}>{text.one.edit}</Button>}
          <Button onClick={() => setPolicyOf(project.name)}>{text.policy.view}</Button>
          {mayDelete && (
            <Button c="var(--failed)" onClick={() => setRemoving(project.name)}>
              {text.one.delete}
            </Button>
          )}
        </>
      }
    >
      {(project.warnings ?? []).length > 0 && <Warning>{sentence({ what: project.warnings!.join("; ") })}</Warning>}
      <div className={classes.columns}>
        <div className={classes.main}>
          <Card title={text.one.share}>
            <Loaded query={shares} height={96}>
              {(page) => <Bars project={project.name} page={page} />}
            </Loaded>
          </Card>
          <ProjectWorkloads project={project.name} />
          <HistoryChart cluster={project.clusterId} pool={pools?.pool} capacity={null} project={project.name} />
        </div>
        <div className={classes.side}>
          <Facts project={project} />
          <Members project={project.name} />
          <Consumption project={project.name} />
        </div>
      </div>
      <Editor name={project.name} pools={pools} isOpen={isEditing} onClose={() => setEditing(false)} />
      <ProjectForm of={form} onClose={() => setForm(null)} />
      <DeleteProject
        name={removing}
        onClose={() => setRemoving(null)}
        onDeleted={() => void navigate({ to: "/projects" })}
      />
      <PolicyDialog name={policyOf} onClose={() => setPolicyOf(null)} />
    </Page>
  );
}

interface EditorProps {
  name: string;
  pools: PoolShares | undefined;
  isOpen: boolean;
  onClose: () => void;
}

function Editor({ name, pools, isOpen, onClose }: EditorProps) {
  return (
    <Drawer
      opened={isOpen && pools !== undefined}
      onClose={onClose}
      position="right"
      size={380}
      withCloseButton={false}
      padding={0}
      attributes={{ content: { "aria-label": text.editor.label(name) } }}
    >
      {pools !== undefined && <QuotaEditor name={name} shares={pools} onClose={onClose} />}
    </Drawer>
  );
}

function Bars({ project, page }: { project: string; page: Schema<"SharesPage"> }) {
  const colour = useProjectColour();
  const mine = page.shares.filter((each) => each.kind === "project" && each.name === project);
  return (
    <>
      {mine.map((each) => {
        const capacity = page.pools.find((one) => one.nodePool === each.nodePool)?.capacity ?? null;
        return (
          <div key={each.nodePool} className={classes.pool}>
            <ShareFigures share={each} isNamed={mine.length > 1 || page.pools.length > 1} />
            <FairShareBar share={each} colour={colour(project)} scale={scaleOf([each], capacity)} size="hero" labels />
            <Loans share={each} />
          </div>
        );
      })}
      <ShareLegend />
    </>
  );
}

function ShareFigures({ share, isNamed }: { share: Share; isNamed: boolean }) {
  const figures: [string, string][] = [
    [gpus(share.allocated), text.one.held],
    [quota(share.quota ?? null), text.one.quota],
    [quota(share.fairShare), text.one.fairShare],
    ...(share.limit == null ? [] : [[quota(share.limit), text.one.limit] as [string, string]]),
  ];
  return (
    <div className={classes.figures}>
      {figures.map(([value, label]) => (
        <span key={label} className={classes.figure}>
          <strong>{value}</strong>
          {label}
        </span>
      ))}
      {isNamed && <span>{text.one.inPool(share.nodePool)}</span>}
    </div>
  );
}

function Loans({ share }: { share: Share }) {
  const names = (loans: Share["lentTo"]) =>
    loans.map((each) => `${each.name ?? text.lending.hidden} (${quota(each.gpus)})`);
  if (share.lentTo.length + share.borrowedFrom.length === 0) return null;
  return (
    <p className={classes.loans}>
      {share.lentTo.length > 0 && text.one.lendsTo(names(share.lentTo))}
      {share.borrowedFrom.length > 0 && text.one.borrowsFrom(names(share.borrowedFrom))}
    </p>
  );
}

function Facts({ project }: { project: Schema<"Project"> }) {
  const rules = project.effective.schedulingRules;
  const types = project.effective.nodeTypes;
  const facts: [string, React.ReactNode][] = [
    [text.grid.department, project.parent.name],
    [text.grid.pools, poolsOf(project)],
    [text.grid.namespace, project.status.namespace],
    [text.grid.training, types.training?.join(", ") || text.grid.any],
    [text.grid.interactive, types.workspace?.join(", ") || text.grid.any],
    [text.grid.limits, limitsOf(rules, "TimeLimit")],
    [text.grid.idle, limitsOf(rules, "Idle")],
    [text.grid.created, <Moment key="at" at={project.createdAt} />],
    [text.grid.createdBy, project.createdBy || UNKNOWN],
  ];
  return (
    <Card title={text.one.facts}>
      <dl className={classes.facts}>
        {facts.map(([name, value]) => (
          <div key={name} style={{ display: "contents" }}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Card>
  );
}

function Members({ project }: { project: string }) {
  const mayRead = useMay("access-rule.read");
  const rules = useProjectRules(project);
  if (!mayRead) return null;
  return (
    <Card title={text.one.members}>
      <Loaded query={rules} rows={2}>
        {(all) => <RuleTable rules={all} />}
      </Loaded>
    </Card>
  );
}

function Consumption({ project }: { project: string }) {
  const query = useQuery({
    queryKey: ["measured", "usage", project],
    queryFn: () =>
      got(
        api.GET("/api/v1/accounting/usage", {
          params: { query: { filterBy: `project==${project}`, groupBy: "project" } },
        }),
      ) as Promise<Schema<"UsageAnswer">>,
  });
  const hours = (amount: number | null | undefined) => (amount == null ? UNKNOWN : amount.toFixed(1));
  return (
    <Card
      title={text.one.consumption}
      aside={
        <Link to="/consumption" search={{ project } as never}>
          {text.one.consumptionOpen}
        </Link>
      }
    >
      <Loaded query={query} height={80}>
        {({ total }) => (
          <dl className={classes.facts}>
            <dt>{text.one.hours.allocated}</dt>
            <dd>{hours(total.gpuHoursAllocated)}</dd>
            <dt>{text.one.hours.used}</dt>
            <dd>{hours(total.gpuHoursUsed)}</dd>
            <dt>{text.one.hours.over}</dt>
            <dd>{hours(total.gpuHoursOverQuota)}</dd>
            <dt>{text.one.hours.lost}</dt>
            <dd>{hours(total.gpuHoursLost)}</dd>
            {total.cost != null && (
              <>
                <dt>{text.one.hours.cost}</dt>
                <dd>{total.cost}</dd>
              </>
            )}
          </dl>
        )}
      </Loaded>
    </Card>
  );
}
