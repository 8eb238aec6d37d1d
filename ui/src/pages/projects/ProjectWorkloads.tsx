/** The largest workloads of a project that run, and those that wait longest. */
import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, got } from "@/api/client";
import { Card } from "@/components/Card";
import { ExpectedStart } from "@/components/ExpectedStart";
import { useExpectedStarts } from "@/components/expectedStarts";
import { Elapsed } from "@/components/Moment";
import { StatusBadge } from "@/components/StatusBadge";
import { Empty, Loaded } from "@/components/states";
import { WhyLine } from "@/components/WhyLine";
import { gpus, percent } from "@/model/format";
import { text } from "@/text/projects";
import classes from "./ProjectPage.module.css";

const TOP = 6;

function useTop(project: string) {
  return useQuery({
    queryKey: ["workloads", "top", project],
    queryFn: async () => {
      const query = (filterBy: string, sortBy: string, sortOrder: "asc" | "desc") => ({
        params: { query: { filterBy, sortBy, sortOrder, limit: TOP, measured: "true" } as never },
      });
      const [running, pending] = await Promise.all([
        got(api.GET("/api/v1/workloads", query(`projectName==${project},phase==Running`, "allocatedGPU", "desc"))),
        got(api.GET("/api/v1/workloads", query(`projectName==${project},phase==Pending`, "createdAt", "asc"))),
      ]);
      return { running: running.workloads, pending: pending.workloads };
    },
  });
}

export function ProjectWorkloads({ project }: { project: string }) {
  const query = useTop(project);
  const expected = useExpectedStarts(query.data?.pending ?? []);
  const list = (phase?: string) => ({ f: [`projectName==${project}`, ...(phase ? [`phase==${phase}`] : [])] });
  return (
    <Card
      flush
      title={text.one.workloads}
      aside={
        <Link to="/workloads" search={list() as never}>
          {text.one.allWorkloads}
        </Link>
      }
    >
      <Loaded query={query} rows={4}>
        {({ running, pending }) =>
          running.length + pending.length === 0 ? (
            <Empty
              title={text.one.noWorkloads}
              action={
                <Button component={Link} to="/submit">
                  {text.one.submit}
                </Button>
              }
            />
          ) : (
            <div className={classes.scroll}>
              <table className={classes.table}>
                <thead>
                  <tr>
                    <th scope="col">{text.one.workload}</th>
                    <th scope="col">{text.grid.status}</th>
                    <th scope="col" className={classes.number}>
                      {text.one.gpus}
                    </th>
                    <th scope="col" className={classes.number}>
                      {text.grid.used}
                    </th>
                    <th scope="col" className={classes.number}>
                      {text.one.time}
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {[...pending, ...running].map((each) => (
                    <tr key={each.id}>
                      <td>
                        <Link to="/workloads/$workload" params={{ workload: each.id } as never} title={each.name}>
                          {each.name}
                        </Link>
                      </td>
                      <td style={{ whiteSpace: "normal", minWidth: 220 }}>
                        <StatusBadge phase={each.phase} />{" "}
                        {each.phase === "Pending" && (
                          <>
                            <WhyLine cause={each.wait} reason={each.reason} message={each.phaseMessage} clamp />
                            <ExpectedStart wait={expected.get(each.id)} />
                          </>
                        )}
                      </td>
                      <td className={classes.number}>
                        {gpus(
                          each.phase === "Running"
                            ? each.allocatedResources?.gpu
                            : each.workloadRequestedResources?.gpu?.request,
                        )}
                      </td>
                      <td className={classes.number}>{percent(each.measured?.gpuUtilization)}</td>
                      <td className={classes.number}>
                        <Elapsed
                          from={each.phase === "Running" ? each.startedAt : (each.phaseSince ?? each.createdAt)}
                        />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </Card>
  );
}
