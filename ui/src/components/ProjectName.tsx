import { createContext, useContext } from "react";
import { useProjectColour } from "@/api/queries";
import classes from "./ProjectName.module.css";
import { RowLink } from "./RowLink";

/** The colours of projects, for all rows of a list: it asks for them once, and not each row. */
export const ProjectColours = createContext<((project: string) => string) | null>(null);

export function ProjectDot({ project }: { project: string }) {
  const colour = useContext(ProjectColours);
  return colour === null ? <AskingDot project={project} /> : <Dot colour={colour(project)} />;
}

function AskingDot({ project }: { project: string }) {
  return <Dot colour={useProjectColour()(project)} />;
}

function Dot({ colour }: { colour: string }) {
  return <span className={classes.dot} style={{ background: colour }} aria-hidden="true" />;
}

/** A project with its colour; leads to its page unless `plain`. */
export function ProjectName({ project, name, plain = false }: { project: string; name?: string; plain?: boolean }) {
  return (
    <span className={classes.name}>
      <ProjectDot project={project} />
      {plain ? (
        <span className={classes.text}>{name ?? project}</span>
      ) : (
        <RowLink to={`/projects/${encodeURIComponent(project)}`} className={classes.text}>
          {name ?? project}
        </RowLink>
      )}
    </span>
  );
}
