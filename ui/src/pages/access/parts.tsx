/** Small things that several parts of the page show. */
import { ActionIcon, Menu } from "@mantine/core";
import { IconCheck, IconClockPause, IconDots, IconPlayerPause } from "@tabler/icons-react";
import clsx from "clsx";
import type { ReactNode } from "react";
import type { Schema } from "@/api/client";
import { text } from "@/text/access";
import classes from "./Access.module.css";

type Rule = Schema<"AccessRule">;

export function scopeWords(rule: Pick<Rule, "scopeType" | "scopeName" | "scopeId">): string {
  return rule.scopeType === "tenant" ? text.everywhere : rule.scopeName || rule.scopeId;
}

/** `in team-a`, `in the whole system`. */
export function inScope(rule: Pick<Rule, "scopeType" | "scopeName" | "scopeId">): string {
  return rule.scopeType === "tenant" ? text.inSystem : text.in(scopeWords(rule));
}

/** Roles with where they hold. */
export function RoleChips({ rules }: { rules: readonly Rule[] | undefined }) {
  if (rules === undefined) return null;
  if (rules.length === 0) return <span className={classes.dim}>{text.users.noRoles}</span>;
  return (
    <span className={classes.roles}>
      {rules.map((each) => (
        <span key={each.id} className={classes.role} title={`${each.roleName} ${inScope(each)}`}>
          {each.roleName} <span className={classes.where}>{inScope(each)}</span>
        </span>
      ))}
    </span>
  );
}

export function Name({ children }: { children: string }) {
  return (
    <span className={classes.name} title={children}>
      {children}
    </span>
  );
}

const STATES = {
  on: { icon: IconCheck, class: classes.on },
  off: { icon: IconPlayerPause, class: classes.off },
  wait: { icon: IconClockPause, class: classes.wait },
};

export function State({ is, children }: { is: keyof typeof STATES; children: string }) {
  const { icon: Icon, class: tone } = STATES[is];
  return (
    <span className={clsx(classes.state, tone)}>
      <Icon size={14} aria-hidden="true" />
      {children}
    </span>
  );
}

export function RowMenu({ name, children }: { name: string; children: ReactNode }) {
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="sm" aria-label={text.actionsOf(name)}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>{children}</Menu.Dropdown>
    </Menu>
  );
}

export function Problems({ of }: { of: readonly string[] }) {
  if (of.length === 0) return null;
  return (
    <ul className={classes.problems} role="alert">
      {of.map((each) => (
        <li key={each}>{each}</li>
      ))}
    </ul>
  );
}
