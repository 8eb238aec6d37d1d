import { Button } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { useMay, useProjectColour } from "@/api/queries";
import { FairShareBar, ShareLegend } from "@/components/FairShareBar";
import { ProjectName } from "@/components/ProjectName";
import { Empty } from "@/components/states";
import { text } from "@/text/overview";
import { PartCard } from "./PartCard";
import type { Scope } from "./questions";
import classes from "./ShareCard.module.css";
import { largest, type ProjectShare, scaleOf, sharesByProject } from "./shares";

const { shares: words } = text;

interface Props {
  query: UseQueryResult<Schema<"SharesPage">>;
  scope: Scope;
  /** Named where there are several clusters: shares are of one. */
  clusterName: string | undefined;
  className?: string | undefined;
}

/** What each project holds against quota and fair share, on one scale. */
export function ShareCard({ query, scope, clusterName, className }: Props) {
  const pools = new Set(query.data?.shares.map((each) => each.nodePool)).size;
  const note = [clusterName === undefined ? words.note : words.noteOf(clusterName)];
  if (pools > 1 && scope.pool === undefined) note.push(words.sum(pools));
  return (
    <PartCard
      query={query}
      className={className}
      title={words.title}
      note={note.join(" · ")}
      height={220}
      aside={<Link to="/projects">{words.lending}</Link>}
    >
      {(page) => <Bars page={page} scope={scope} />}
    </PartCard>
  );
}

function Bars({ page, scope }: { page: Schema<"SharesPage">; scope: Scope }) {
  const colour = useProjectColour();
  const mayCreate = useMay("project.create");
  const all = sharesByProject(page, scope);
  const shown = largest(all);
  const pools = page.pools.filter((each) => scope.pool === undefined || each.nodePool === scope.pool);
  const scale = scaleOf(
    shown,
    pools.reduce((sum, each) => sum + each.capacity, 0),
  );
  if (shown.length === 0)
    return (
      <Empty
        title={words.empty}
        hint={words.emptyHint}
        {...(mayCreate
          ? {
              action: (
                <Button component={Link} to="/projects">
                  {words.create}
                </Button>
              ),
            }
          : {})}
      />
    );
  return (
    <>
      <ul className={classes.rows} aria-label={words.byProject}>
        {shown.map((each) => (
          <li key={each.project} className={classes.row}>
            <span className={classes.name} title={each.project}>
              <ProjectName project={each.project} />
            </span>
            <Link
              to="/workloads"
              search={{ f: [`projectId==${each.project}`] }}
              className={classes.bar}
              tabIndex={-1}
              aria-hidden="true"
            >
              <FairShareBar share={each} colour={colour(each.project)} scale={scale} labels />
            </Link>
            <Amounts share={each} />
          </li>
        ))}
      </ul>
      <div className={classes.foot}>
        <ShareLegend />
        {all.length > shown.length && <Link to="/projects">{words.more(all.length - shown.length)}</Link>}
      </div>
    </>
  );
}

function Amounts({ share }: { share: ProjectShare }) {
  const [held, quota] = words.held(share.allocated, share.quota);
  const notes: string[] = [];
  if (share.overQuota > 0) notes.push(words.over(share.overQuota));
  if (share.waiting > 0) notes.push(words.wait(share.waiting));
  if (share.lent > 0) notes.push(words.lends(share.lent));
  return (
    <span className={classes.amounts}>
      <Link to="/workloads" search={{ f: [`projectId==${share.project}`, "phase==Running"] }} className={classes.held}>
        <strong>{held}</strong> {quota}
      </Link>
      <span className={share.overQuota > 0 ? classes.over : undefined}>{notes.join(" · ")}</span>
    </span>
  );
}
