import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { projectsQuery } from "@/api/queries";
import { Card } from "@/components/Card";
import { Loaded } from "@/components/states";
import { listed } from "@/model/format";
import { text } from "@/text/policies";
import { Bindings } from "./Bindings";
import classes from "./Policies.module.css";
import { effectiveQuery, type PolicyType, TYPES } from "./queries";

const { effective: words } = text;

/** What all policies come to in one project. */
export function Effective() {
  const raw = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const projects = useQuery(projectsQuery).data ?? [];
  const project = typeof raw.project === "string" ? raw.project : "";
  const type = TYPES.find((each) => each === raw.type) ?? "training";
  const query = useQuery(effectiveQuery(project, type));
  const set = (change: object) =>
    void navigate({ to: ".", replace: true, search: (before: object) => ({ ...before, ...change }) } as never);
  return (
    <Card title={words.title} note={words.note}>
      <div className={classes.choices}>
        <Select
          label={words.project}
          placeholder={words.choose}
          searchable
          data={projects.map((each) => ({ value: each.id, label: each.name }))}
          value={project || null}
          onChange={(next) => set({ project: next ?? undefined })}
        />
        <Select
          label={words.type}
          allowDeselect={false}
          data={TYPES.map((value) => ({ value, label: text.types[value] }))}
          value={type}
          onChange={(next) => set({ type: next as PolicyType })}
        />
      </div>
      {project !== "" && (
        <div style={{ marginTop: 16 }}>
          <Loaded query={query} rows={4}>
            {(data) => (
              <>
                {data.policies.length > 0 && (
                  <p className={classes.dim}>
                    {words.from(
                      listed(
                        data.policies.map((each) => each.name),
                        6,
                      ),
                    )}
                  </p>
                )}
                <Bindings
                  document={data.effective as Record<string, unknown>}
                  defaultSources={data.defaultSources}
                  none={words.none}
                />
              </>
            )}
          </Loaded>
        </div>
      )}
    </Card>
  );
}
