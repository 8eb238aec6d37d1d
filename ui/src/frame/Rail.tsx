import { ActionIcon, Tooltip } from "@mantine/core";
import { IconLayoutSidebarLeftCollapse, IconLayoutSidebarLeftExpand } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, got } from "@/api/client";
import { useMe } from "@/api/queries";
import { text } from "@/text/frame";
import { Mark } from "./Mark";
import { type MenuEntry, menuFor, type Section } from "./pages";
import classes from "./Shell.module.css";

const SECTIONS: Section[] = ["top", "organization", "insight", "system"];

/** How many workloads wait, for the badge. */
export function usePendingCount(): number | undefined {
  return useQuery({
    queryKey: ["waiting", "count"],
    queryFn: () => got(api.GET("/api/v1/workloads/waiting", { params: { query: { limit: 1 } } })),
    select: (page) => page.count,
  }).data;
}

export function Rail({ isCollapsed, onToggle }: { isCollapsed: boolean; onToggle: () => void }) {
  const me = useMe();
  const entries = menuFor(me?.permissions ?? []);
  const toggle = isCollapsed ? text.expand : text.collapse;
  return (
    <nav className={classes.rail} aria-label={text.navigation}>
      <Link to="/" className={classes.brand} aria-label={text.product}>
        <Mark />
        {!isCollapsed && text.product}
      </Link>
      {SECTIONS.map((section) => {
        const inSection = entries.filter((each) => each.section === section);
        return (
          inSection.length > 0 && (
            <div key={section}>
              {text.groups[section] !== "" && !isCollapsed && (
                <div className={classes.section}>{text.groups[section]}</div>
              )}
              {inSection.map((each) => (
                <RailLink key={each.path} entry={each} isCollapsed={isCollapsed} />
              ))}
            </div>
          )
        );
      })}
      <div className={classes.railFoot}>
        <Tooltip label={toggle} position="right">
          <ActionIcon variant="subtle" color="gray" onClick={onToggle} aria-label={toggle}>
            {isCollapsed ? <IconLayoutSidebarLeftExpand size={18} /> : <IconLayoutSidebarLeftCollapse size={18} />}
          </ActionIcon>
        </Tooltip>
      </div>
    </nav>
  );
}

function RailLink({ entry, isCollapsed }: { entry: MenuEntry; isCollapsed: boolean }) {
  const pending = usePendingCount();
  const badge = entry.path === "/workloads" && pending ? pending : null;
  return (
    <Tooltip label={entry.label} position="right" disabled={!isCollapsed}>
      <Link
        to={entry.path as never}
        className={classes.link}
        activeProps={{ className: classes.active, "aria-current": "page" }}
        activeOptions={{ exact: entry.path === "/", includeSearch: false }}
        aria-label={isCollapsed ? entry.label : undefined}
      >
        <entry.icon size={17} stroke={1.6} />
        {!isCollapsed && entry.label}
        {badge !== null && !isCollapsed && <span className={classes.badge}>{badge}</span>}
      </Link>
    </Tooltip>
  );
}
