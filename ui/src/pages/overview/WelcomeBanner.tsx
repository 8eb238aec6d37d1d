import { Alert, Button, Group } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";
import { api, got } from "@/api/client";
import { usePreference, usePreferencesKnown } from "@/api/preferences";
import { projectsQuery, useMay } from "@/api/queries";
import { text } from "@/text/overview";

const SHOWN = "fairpool.welcome.shown";

/** Nothing has ever run here. */
const everQuery = {
  queryKey: ["workloads", "ever"],
  queryFn: async () => {
    const page = await got(api.GET("/api/v1/workloads", { params: { query: { deleted: true, limit: 1 } } }));
    return page.workloads.length > 0;
  },
};

/** Leads a new installation to its first steps: by itself once, then with a line that can be dismissed. */
export function WelcomeBanner() {
  const navigate = useNavigate();
  const [isDone, setDone] = usePreference("welcome.done", false);
  const isAdministrator = useMay("project.create");
  const ever = useQuery(everQuery).data;
  const projects = useQuery(projectsQuery).data;
  const areKnown = usePreferencesKnown();
  const isNew = isAdministrator && ever === false;
  const hasNoProject = projects !== undefined && projects.length === 0;
  const isShown = areKnown && !isDone && (isNew || hasNoProject);
  useEffect(() => {
    if (!isShown || sessionStorage.getItem(SHOWN) !== null) return;
    sessionStorage.setItem(SHOWN, "1");
    void navigate({ to: "/welcome", replace: true });
  }, [isShown, navigate]);
  if (!isShown) return null;
  return (
    <Alert variant="light" p="sm" withCloseButton closeButtonLabel={text.welcome.dismiss} onClose={() => setDone(true)}>
      <Group gap="sm">
        <span>{isNew ? text.welcome.banner : text.welcome.noProject}</span>
        <Button component={Link} to="/welcome" size="xs">
          {text.welcome.open}
        </Button>
      </Group>
    </Alert>
  );
}
