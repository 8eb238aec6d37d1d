import type { Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { Moment } from "@/components/Moment";
import { Empty } from "@/components/states";
import { inScope } from "@/pages/access/parts";
import { text } from "@/text/profile";
import classes from "./Profile.module.css";

const { me: words } = text;

export function MeTab({ me }: { me: Schema<"Me"> }) {
  const permissions = me.permissions ?? [];
  return (
    <>
      <Card title={words.account}>
        <dl className={classes.facts}>
          <div className={classes.fact}>
            <dt>{words.name}</dt>
            <dd>{me.username}</dd>
          </div>
          <div className={classes.fact}>
            <dt>{words.groups}</dt>
            <dd>{(me.groups ?? []).join(", ") || words.none}</dd>
          </div>
          <div className={classes.fact}>
            <dt>{words.id}</dt>
            <dd>{me.id}</dd>
          </div>
        </dl>
      </Card>
      <Card title={words.roles} note={words.rolesHint}>
        {(me.accessRules ?? []).length === 0 ? (
          <Empty title={words.noRoles} hint={words.noRolesHint} />
        ) : (
          <ul className={classes.roles}>
            {me.accessRules?.map((each) => (
              <li key={each.id}>
                <strong>{words.roleIn(each.roleName, inScope(each))}</strong>{" "}
                <span className={classes.hint}>
                  {each.subjectType === "group" ? `${each.subjectName} ` : ""}
                  {each.createdBy && words.authorizedBy(each.createdBy)} <Moment at={each.createdAt} />
                </span>
              </li>
            ))}
          </ul>
        )}
        {permissions.length > 0 && (
          <details style={{ marginTop: 16 }}>
            <summary>{words.permissions(permissions.length)}</summary>
            <ul className={classes.permissions}>
              {permissions.map((each) => (
                <li key={each}>{each}</li>
              ))}
            </ul>
          </details>
        )}
      </Card>
    </>
  );
}
