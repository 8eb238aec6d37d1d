import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { usePreference } from "@/api/preferences";
import { projectsQuery } from "@/api/queries";
import { Page } from "@/components/Page";
import { text } from "@/text/welcome";
import { DemoCard } from "./DemoCard";
import { HelpCard } from "./HelpCard";
import { NextCards } from "./NextCards";
import { NodesStep, useFoundNodes } from "./NodesStep";
import { NotebookStep, useNotebook } from "./NotebookStep";
import { ProjectStep } from "./ProjectStep";
import classes from "./Welcome.module.css";

/** From an empty installation to an open notebook. */
export function WelcomePage() {
  const found = useFoundNodes();
  const projects = useQuery(projectsQuery).data;
  const notebook = useNotebook();
  const [isDone, setDone] = usePreference("welcome.done", false);
  const hasNodes = found !== undefined && found.nodes > 0;
  const hasProject = projects !== undefined && projects.length > 0;
  const current = !hasNodes ? 1 : !hasProject ? 2 : notebook?.phase === "Running" ? 0 : 3;
  return (
    <Page
      title={text.title}
      lead={text.lead}
      actions={
        <>
          {!isDone && (
            <Button variant="subtle" onClick={() => setDone(true)}>
              {text.skip}
            </Button>
          )}
          <Button component={Link} to="/">
            {text.toOverview}
          </Button>
        </>
      }
    >
      <ol className={classes.steps}>
        <NodesStep isCurrent={current === 1} />
        <ProjectStep isCurrent={current === 2} />
        <NotebookStep isCurrent={current === 3} />
      </ol>
      <DemoCard />
      <NextCards />
      <HelpCard />
    </Page>
  );
}
