/** Who has which role in a project, and a way to give and take one. */
import { ActionIcon, Autocomplete, Button, Select } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { useRemoval } from "@/components/removal";
import { Loaded } from "@/components/states";
import { text } from "@/text/projects";
import classes from "./ProjectForm.module.css";

type Scope = "project" | "department";

const rulesKey = (name: string, scope: Scope) => ["projects", "access", scope, name];

export function useProjectRules(project: string, scope: Scope = "project") {
  return useQuery({
    queryKey: rulesKey(project, scope),
    enabled: useMay("access-rule.read"),
    queryFn: async () => {
      const page = await got(
        api.GET("/api/v1/authorization/access-rules", {
          params: { query: { scopeType: scope, scopeId: project, limit: 500 } },
        }),
      );
      return page.accessRules;
    },
  });
}

export function AccessTab({ project, scope = "project" }: { project: string; scope?: Scope }) {
  const mayRead = useMay("access-rule.read");
  const mayGive = useMay("access-rule.create");
  const mayTake = useMay("access-rule.delete");
  const rules = useProjectRules(project, scope);
  const removal = useRemoval(rulesKey(project, scope));
  if (!mayRead) return <p>{text.access.noRight}</p>;
  return (
    <div className={classes.form}>
      <Loaded query={rules} rows={3}>
        {(all) => (
          <RuleTable
            rules={all.filter((each) => !removal.isHidden(String(each.id)))}
            onRemove={
              mayTake
                ? (rule) =>
                    removal.remove([String(rule.id)], text.access.removed(rule.subjectName || rule.subjectId), () =>
                      got(
                        api.DELETE("/api/v1/authorization/access-rules/{rule_id}", {
                          params: { path: { rule_id: rule.id as never } },
                        }),
                      ),
                    )
                : undefined
            }
          />
        )}
      </Loaded>
      {mayGive && <GiveAccess project={project} scope={scope} />}
    </div>
  );
}

interface TableProps {
  rules: Schema<"AccessRule">[];
  onRemove?: ((rule: Schema<"AccessRule">) => void) | undefined;
}

export function RuleTable({ rules, onRemove }: TableProps) {
  if (rules.length === 0) return <p>{text.access.none}</p>;
  return (
    <table className={classes.rules}>
      <thead>
        <tr>
          <th scope="col">{text.access.subject}</th>
          <th scope="col">{text.access.type}</th>
          <th scope="col">{text.access.role}</th>
          {onRemove && <th scope="col" aria-label={text.access.remove("")} />}
        </tr>
      </thead>
      <tbody>
        {rules.map((each) => (
          <tr key={each.id}>
            <td>{each.subjectName || each.subjectId}</td>
            <td>{text.access.types[each.subjectType]}</td>
            <td>{each.roleName}</td>
            {onRemove && (
              <td>
                <ActionIcon
                  variant="subtle"
                  color="gray"
                  onClick={() => onRemove(each)}
                  aria-label={text.access.remove(each.subjectName || each.subjectId)}
                >
                  <IconTrash size={16} />
                </ActionIcon>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function GiveAccess({ project, scope }: { project: string; scope: Scope }) {
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const [subject, setSubject] = useState("");
  const [type, setType] = useState<Schema<"SubjectType">>("user");
  const [role, setRole] = useState<string | null>("researcher");
  const users = useQuery({
    queryKey: ["users", "names"],
    enabled: useMay("user.read"),
    queryFn: async () => {
      const page = (await got(api.GET("/api/v1/users"))) as unknown as Schema<"User">[] | { users: Schema<"User">[] };
      return (Array.isArray(page) ? page : page.users).map((each) => each.username);
    },
  }).data;
  const roles = useQuery({
    queryKey: ["roles"],
    queryFn: async () => {
      const page = (await got(api.GET("/api/v1/authorization/roles"))) as unknown;
      return (Array.isArray(page) ? page : (page as { roles: Schema<"Role">[] }).roles) as Schema<"Role">[];
    },
  }).data;
  const give = useMutation({
    mutationFn: () =>
      got(
        api.POST("/api/v1/authorization/access-rules", {
          body: { subjectId: subject.trim(), subjectType: type, roleId: role!, scopeType: scope, scopeId: project },
        }),
      ),
    onSuccess: () => {
      done(text.access.added(subject.trim()));
      setSubject("");
      void queries.invalidateQueries({ queryKey: ["projects"] });
    },
    onError: (error) => refused(error),
  });
  return (
    <div className={classes.add}>
      <Select
        label={text.access.type}
        w={140}
        data={Object.entries(text.access.types).map(([value, label]) => ({ value, label }))}
        value={type}
        allowDeselect={false}
        onChange={(next) => setType((next ?? "user") as Schema<"SubjectType">)}
      />
      <Autocomplete
        label={text.access.subject}
        placeholder={text.access.placeholder}
        data={type === "user" ? [...new Set(users ?? [])] : []}
        value={subject}
        onChange={setSubject}
      />
      <Select
        label={text.access.role}
        data={(roles ?? []).map((each) => ({ value: each.key, label: each.name }))}
        value={role}
        onChange={setRole}
        searchable
      />
      <Button
        variant="default"
        loading={give.isPending}
        disabled={isHeld || subject.trim() === "" || role === null}
        onClick={() => give.mutate()}
      >
        {text.access.add}
      </Button>
    </div>
  );
}
