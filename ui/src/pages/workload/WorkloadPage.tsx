import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { ApiError } from "@/api/client";
import { Page } from "@/components/Page";
import { Empty, Failed, Loading } from "@/components/states";
import { text } from "@/text/workload";
import { namedQuery, workloadQuery } from "./queries";
import { WorkloadView } from "./WorkloadView";

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Everything about one workload. Its address has its id, or its name and `?project=`. */
export function WorkloadPage() {
  const { workload: asked } = useParams({ strict: false }) as { workload: string };
  const { project } = useSearch({ strict: false }) as { project?: unknown };
  const isName = !ID.test(asked) && typeof project === "string";
  const named = useQuery({ ...namedQuery(asked, String(project)), enabled: isName });
  const id = isName ? named.data : asked;
  const query = useQuery({ ...workloadQuery(id ?? ""), enabled: typeof id === "string" });
  if (query.data !== undefined && id) return <WorkloadView key={id} workload={query.data} />;
  const isUnknown = id === null || (query.error instanceof ApiError && query.error.status === 404);
  return (
    <Page title={asked}>
      {isUnknown ? (
        <Empty title={text.unknown} hint={text.unknownHint} action={<Link to="/workloads">{text.toList}</Link>} />
      ) : query.isError || named.isError ? (
        <Failed error={query.error ?? named.error} onRetry={() => void query.refetch()} />
      ) : (
        <Loading height={420} />
      )}
    </Page>
  );
}
