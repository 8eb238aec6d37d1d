import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type RouteComponent,
  redirect,
} from "@tanstack/react-router";
import { NotFound } from "./NotFound";
import { PageFailed } from "./PageFailed";
import { Shell } from "./Shell";

interface Context {
  queries: QueryClient;
}

const root = createRootRouteWithContext<Context>()({ component: Shell, notFoundComponent: NotFound });

type Load = () => Promise<Record<string, unknown>>;

function page<const Path extends string>(path: Path, load: Load, name: string) {
  return createRoute({
    getParentRoute: () => root,
    path,
    component: lazyRouteComponent(load as never, name as never) as RouteComponent,
    errorComponent: PageFailed,
    validateSearch: (search: Record<string, unknown>) => search,
  });
}

/** Addresses of earlier releases of the product. */
function moved<const Path extends string>(path: Path, to: string) {
  return createRoute({
    getParentRoute: () => root,
    path,
    beforeLoad: () => {
      throw redirect({ to: to as never, replace: true });
    },
  });
}

const tree = root.addChildren([
  page("/", () => import("@/pages/overview/OverviewPage"), "OverviewPage"),
  page("/welcome", () => import("@/pages/welcome/WelcomePage"), "WelcomePage"),
  page("/map", () => import("@/pages/map/MapPage"), "MapPage"),
  page("/workloads", () => import("@/pages/workloads/WorkloadsPage"), "WorkloadsPage"),
  page("/workloads/$workload", () => import("@/pages/workload/WorkloadPage"), "WorkloadPage"),
  page("/submit", () => import("@/pages/submit/SubmitPage"), "SubmitPage"),
  page("/assets", () => import("@/pages/assets/AssetsPage"), "AssetsPage"),
  page("/projects", () => import("@/pages/projects/ProjectsPage"), "ProjectsPage"),
  page("/projects/$project", () => import("@/pages/projects/ProjectPage"), "ProjectPage"),
  page("/departments", () => import("@/pages/departments/DepartmentsPage"), "DepartmentsPage"),
  page("/node-pools", () => import("@/pages/nodePools/NodePoolsPage"), "NodePoolsPage"),
  page("/nodes", () => import("@/pages/nodes/NodesPage"), "NodesPage"),
  page("/nodes/$node", () => import("@/pages/nodes/NodePage"), "NodePage"),
  page("/clusters", () => import("@/pages/clusters/ClustersPage"), "ClustersPage"),
  page("/analytics", () => import("@/pages/analytics/AnalyticsPage"), "AnalyticsPage"),
  page("/decisions", () => import("@/pages/decisions/DecisionsPage"), "DecisionsPage"),
  page("/what-if", () => import("@/pages/whatIf/WhatIfPage"), "WhatIfPage"),
  page("/consumption", () => import("@/pages/consumption/ConsumptionPage"), "ConsumptionPage"),
  page("/quota", () => import("@/pages/quota/QuotaPage"), "QuotaPage"),
  page("/reports", () => import("@/pages/reports/ReportsPage"), "ReportsPage"),
  page("/policies", () => import("@/pages/policies/PoliciesPage"), "PoliciesPage"),
  page("/access", () => import("@/pages/access/AccessPage"), "AccessPage"),
  page("/audit", () => import("@/pages/audit/AuditPage"), "AuditPage"),
  page("/settings", () => import("@/pages/settings/SettingsPage"), "SettingsPage"),
  page("/profile", () => import("@/pages/profile/ProfilePage"), "ProfilePage"),
  page("/command-line", () => import("@/pages/commandLine/CommandLinePage"), "CommandLinePage"),
  moved("/dashboards/now", "/"),
  moved("/dashboards/analytics", "/analytics"),
  moved("/jobs", "/workloads"),
]);

/** Another page begins at its top; another tab or filter of the same page stays where it is. */
function pageIfAnother(): () => Element | null {
  let path = "";
  return () => {
    const isAnother = window.location.pathname !== path;
    path = window.location.pathname;
    return isAnother ? document.getElementById("page") : null;
  };
}

export function newRouter(queries: QueryClient) {
  return createRouter({
    routeTree: tree,
    context: { queries },
    defaultPreload: "intent",
    defaultPreloadStaleTime: 0,
    scrollRestoration: true,
    scrollToTopSelectors: [pageIfAnother()],
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
