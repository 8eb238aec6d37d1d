import { Button } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { Card } from "@/components/Card";
import { type Removal, useRemoval } from "@/components/removal";
import { Loaded } from "@/components/states";
import { text } from "@/text/access";
import classes from "./Access.module.css";
import { cellsOf, PermissionGrid } from "./PermissionGrid";
import { rolesQuery } from "./queries";
import { type Draft, RoleEditor } from "./RoleEditor";

type Role = Schema<"Role">;
const { roles: words } = text;
const EVERYTHING = 1;

/** The list, and what the chosen role permits. */
export function RolesTab() {
  const query = useQuery(rolesQuery);
  const removal = useRemoval(["access", "roles"]);
  const [draft, setDraft] = useState<Draft | null>(null);
  const asked = Number((useSearch({ strict: false }) as Record<string, unknown>).role);
  const navigate = useNavigate();
  const choose = (id: number) => void navigate({ to: ".", search: { tab: "roles", role: id } } as never);
  return (
    <Loaded query={query} rows={12}>
      {(data) => {
        const roles = data.filter((each) => !removal.isHidden(String(each.id)));
        const chosen = roles.find((each) => each.id === asked) ?? roles[0];
        const all = roles.find((each) => each.id === EVERYTHING)?.permissions ?? chosen?.permissions ?? [];
        return (
          <>
            <div className={classes.split}>
              <RoleList roles={roles} chosen={chosen} onChoose={choose} onNew={setDraft} />
              {chosen && <RoleCard role={chosen} all={all} removal={removal} onEdit={setDraft} />}
            </div>
            <RoleEditor
              draft={draft}
              all={all}
              onClose={() => setDraft(null)}
              onSaved={(id) => {
                setDraft(null);
                choose(id);
              }}
            />
          </>
        );
      }}
    </Loaded>
  );
}

interface ListProps {
  roles: readonly Role[];
  chosen: Role | undefined;
  onChoose: (id: number) => void;
  onNew: (draft: Draft) => void;
}

function RoleList({ roles, chosen, onChoose, onNew }: ListProps) {
  const mayCreate = useMay("role.create");
  const isHeld = useWritesHeld();
  return (
    <Card
      title={words.title}
      flush
      aside={
        mayCreate && (
          <Button
            size="xs"
            leftSection={<IconPlus size={14} />}
            disabled={isHeld}
            onClick={() => onNew({ id: null, name: "", description: "", enabled: true, permissions: [] })}
          >
            {words.new}
          </Button>
        )
      }
    >
      <ul className={classes.pick}>
        {roles.map((each) => (
          <li key={each.id}>
            <button type="button" aria-current={each.id === chosen?.id} onClick={() => onChoose(each.id)}>
              <span className={classes.pickName}>
                {each.name}
                <span className={classes.pickNote}>{kindOf(each)}</span>
              </span>
              <span className={classes.pickNote}>{each.description}</span>
            </button>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function kindOf(role: Role): string {
  if (!role.effectiveEnabled) return words.off;
  return role.custom ? words.custom : words.builtIn;
}

interface CardProps {
  role: Role;
  all: Role["permissions"];
  removal: Removal;
  onEdit: (draft: Draft) => void;
}

function RoleCard({ role, all, removal, onEdit }: CardProps) {
  const [mayCreate, mayUpdate, mayDelete] = [useMay("role.create"), useMay("role.update"), useMay("role.delete")];
  const mayRead = useMay("access-rule.read");
  const isHeld = useWritesHeld();
  const { id, name, description, enabled, permissions } = role;
  return (
    <Card
      title={name}
      note={role.description}
      aside={
        <>
          {mayRead && (
            <Link to="/access" search={{ tab: "rules", f: [`roleName==${name}`] } as never}>
              {words.rules}
            </Link>
          )}
          {mayCreate && (
            <Button
              size="xs"
              disabled={isHeld}
              onClick={() => onEdit({ id: null, name: words.copyName(name), description, enabled: true, permissions })}
            >
              {words.duplicate}
            </Button>
          )}
          {role.custom && mayUpdate && (
            <Button size="xs" disabled={isHeld} onClick={() => onEdit({ id, name, description, enabled, permissions })}>
              {words.editButton}
            </Button>
          )}
          {role.custom && mayDelete && (
            <Button
              size="xs"
              color="red"
              disabled={isHeld}
              onClick={() =>
                removal.remove([String(id)], words.willDelete(name), () =>
                  got(
                    api.DELETE("/api/v1/authorization/roles/{role_id}", { params: { path: { role_id: String(id) } } }),
                  ),
                )
              }
            >
              {words.delete}
            </Button>
          )}
        </>
      }
    >
      <PermissionGrid all={all} cells={cellsOf(permissions)} />
    </Card>
  );
}
