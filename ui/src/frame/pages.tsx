/** Every page: its path, its place in the menu, and who sees it there. The server decides what a caller may do. */
import {
  IconAdjustments,
  IconArrowsSplit2,
  IconBuilding,
  IconChartBar,
  IconChartLine,
  IconClipboardList,
  IconCoin,
  IconCube,
  IconGavel,
  IconHistory,
  IconHome,
  IconKey,
  IconLayoutGrid,
  IconListDetails,
  IconScale,
  IconServer2,
  IconSettings,
  IconTemplate,
  IconTopologyStar3,
} from "@tabler/icons-react";
import type { ComponentType } from "react";
import { text } from "@/text/frame";

export type Section = "top" | "organization" | "insight" | "system";

export interface MenuEntry {
  path: string;
  label: string;
  icon: ComponentType<{ size?: number; stroke?: number }>;
  section: Section;
  /** One of these permissions puts it into the menu; none: everybody has it there. */
  permissions?: string[];
}

const { pages } = text;

export const MENU: MenuEntry[] = [
  { path: "/", label: pages.overview, icon: IconHome, section: "top" },
  { path: "/map", label: pages.map, icon: IconLayoutGrid, section: "top" },
  { path: "/workloads", label: pages.workloads, icon: IconListDetails, section: "top" },
  { path: "/assets", label: pages.assets, icon: IconTemplate, section: "top" },
  { path: "/projects", label: pages.projects, icon: IconChartBar, section: "organization" },
  {
    path: "/departments",
    label: pages.departments,
    icon: IconBuilding,
    section: "organization",
    permissions: ["department.update"],
  },
  {
    path: "/node-pools",
    label: pages.nodePools,
    icon: IconCube,
    section: "organization",
    permissions: ["node-pool.update"],
  },
  { path: "/nodes", label: pages.nodes, icon: IconServer2, section: "organization", permissions: ["node.mark"] },
  {
    path: "/clusters",
    label: pages.clusters,
    icon: IconTopologyStar3,
    section: "organization",
    permissions: ["cluster.update"],
  },
  { path: "/analytics", label: pages.analytics, icon: IconChartLine, section: "insight" },
  { path: "/decisions", label: pages.decisions, icon: IconGavel, section: "insight" },
  {
    path: "/what-if",
    label: pages.whatIf,
    icon: IconArrowsSplit2,
    section: "insight",
    permissions: ["cluster.snapshot"],
  },
  { path: "/consumption", label: pages.consumption, icon: IconCoin, section: "insight" },
  { path: "/quota", label: pages.quota, icon: IconScale, section: "insight", permissions: ["project.update"] },
  {
    path: "/reports",
    label: pages.reports,
    icon: IconClipboardList,
    section: "insight",
    permissions: ["project.update"],
  },
  { path: "/policies", label: pages.policies, icon: IconAdjustments, section: "system", permissions: ["policy.write"] },
  {
    path: "/access",
    label: pages.access,
    icon: IconKey,
    section: "system",
    permissions: ["access-rule.read", "user.read"],
  },
  { path: "/audit", label: pages.audit, icon: IconHistory, section: "system", permissions: ["audit.read"] },
  { path: "/settings", label: pages.settings, icon: IconSettings, section: "system", permissions: ["setting.read"] },
];

/** What a caller with these permissions has in the menu. */
export function menuFor(permissions: readonly string[]): MenuEntry[] {
  return MENU.filter(
    (each) => each.permissions === undefined || each.permissions.some((one) => permissions.includes(one)),
  );
}
