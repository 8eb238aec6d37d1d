import { ActionIcon, Button, Group, Menu, Modal, Stack } from "@mantine/core";
import { IconDots, IconPlus } from "@tabler/icons-react";
import { keepPreviousData, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { clustersQuery, departmentsQuery, projectsQuery, useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import { Card } from "@/components/Card";
import { FairShareBar, ShareLegend } from "@/components/FairShareBar";
import { type Column, Grid } from "@/components/Grid";
import { listQuery, useListState } from "@/components/listState";
import { Moment } from "@/components/Moment";
import { Notice } from "@/components/Notice";
import { Page } from "@/components/Page";
import { ProjectName } from "@/components/ProjectName";
import { rowFacts } from "@/components/rowFacts";
import { gpus, quota, UNKNOWN } from "@/model/format";
import { ProjectForm } from "@/pages/projects/ProjectForm";
import { allocationRatio } from "@/pages/projects/projectColumns";
import { scaleOf, usePoolShares } from "@/pages/projects/shareData";
import { Warning } from "@/pages/projects/Warning";
import { text } from "@/text/departments";
import { text as frame } from "@/text/frame";
import { DepartmentForm } from "./DepartmentForm";
import classes from "./DepartmentsPage.module.css";
import { overDepartments } from "./departmentForm";

type Department = Schema<"Department">;

interface Acts {
  edit: (name: string) => void;
  remove: (department: Department) => void;
  newProject: (name: string) => void;
}

export function DepartmentsPage() {
  const [state, setState] = useListState();
  const navigate = useNavigate();
  const [form, setForm] = useState<string | null>(null);
  const [removing, setRemoving] = useState<Department | null>(null);
  const [newIn, setNewIn] = useState<string | null>(null);
  const params = listQuery(state);
  const query = useQuery({
    queryKey: ["departments", "list", params],
    placeholderData: keepPreviousData,
    queryFn: () => got(api.GET("/api/v1/org-unit/departments", { params: { query: params } })),
  });
  const acts = useMemo(() => ({ edit: setForm, remove: setRemoving, newProject: setNewIn }), []);
  const columns = useColumns(acts);
  return (
    <Page
      title={text.title}
      lead={text.lead}
      actions={
        useMay("department.create") && (
          <Button leftSection={<IconPlus size={16} />} onClick={() => setForm("")}>
            {text.newDepartment}
          </Button>
        )
      }
    >
      <Warnings />
      <Card flush label={text.title}>
        <Grid
          label={text.title}
          rows={query.data?.departments}
          hasMore={query.data?.next != null}
          error={query.error}
          onRetry={() => void query.refetch()}
          columns={columns}
          idOf={(each) => each.id}
          nameOf={(each) => each.name}
          state={state}
          onState={setState}
          onOpen={(each) => void navigate({ to: "/projects", search: { f: [`parentId==${each.name}`] } } as never)}
          card={(each) => rowFacts(columns, each)}
        />
        <div className={classes.legend}>
          <ShareLegend />
        </div>
      </Card>
      <DepartmentForm of={form} onClose={() => setForm(null)} />
      <ProjectForm
        of={newIn === null ? null : ""}
        {...(newIn === null ? {} : { department: newIn })}
        onClose={() => setNewIn(null)}
      />
      <DeleteDepartment department={removing} onClose={() => setRemoving(null)} />
    </Page>
  );
}

function Warnings() {
  const departments = useQuery(departmentsQuery).data ?? [];
  const projects = useQuery(projectsQuery).data ?? [];
  const over = overDepartments(departments, projects);
  if (over.length === 0) return null;
  return (
    <Warning state="over-department">
      {over.map((each) => (
        <div key={`${each.department}/${each.pool}`}>{text.over(each.department, each.sum, each.own, each.pool)}</div>
      ))}
    </Warning>
  );
}

function useSubjects() {
  const mayRead = useMay("access-rule.read");
  return useQuery({
    queryKey: ["departments", "subjects"],
    enabled: mayRead,
    queryFn: async () => {
      const page = await got(
        api.GET("/api/v1/authorization/access-rules", { params: { query: { scopeType: "department", limit: 500 } } }),
      );
      return page.accessRules;
    },
  }).data;
}

function useColumns(acts: Acts): Column<Department>[] {
  const { shares } = usePoolShares();
  const projects = useQuery(projectsQuery).data;
  const clusters = useQuery(clustersQuery).data;
  const subjects = useSubjects();
  return useMemo(() => {
    const { grid } = text;
    const scale = scaleOf(shares?.departments ?? [], shares?.totals?.capacity ?? null);
    const share = (each: Department) => shares?.departments.find((one) => one.name === each.name);
    const inside = (each: Department) => projects?.filter((one) => one.parent.name === each.name) ?? [];
    const sum = (each: Department) =>
      inside(each).reduce((total, one) => total + Math.max(0, one.totalResources.gpuQuota), 0);
    const owed = (each: Department) => {
      const all = quota(each.totalResources.gpuQuota < 0 ? null : each.totalResources.gpuQuota);
      return each.quotaIsSet ? all : grid.follows(all);
    };
    const pools = (each: Department) =>
      each.resources.map((one) => `${one.nodePool?.id ?? "default"} ${poolQuota(one.gpu?.deserved)}`).join(", ");
    const columns: Column<Department>[] = [
      { key: "name", header: grid.name, sort: "name", render: (each) => each.name, csv: (each) => each.name },
      {
        key: "bar",
        header: grid.bar(scale),
        width: "34%",
        render: (each) => {
          const found = share(each);
          return found === undefined ? (
            UNKNOWN
          ) : (
            <div className={classes.bar}>
              <FairShareBar share={found} colour="var(--text-3)" scale={scale} labels />
            </div>
          );
        },
      },
      { key: "quota", header: grid.quota, align: "right", render: owed, csv: owed },
      {
        key: "sum",
        header: grid.projectsQuota,
        align: "right",
        render: (each) => quota(sum(each)),
        csv: sum,
      },
      {
        key: "allocated",
        header: grid.allocated,
        align: "right",
        render: (each) => gpus(each.allocatedGpus),
        csv: (each) => each.allocatedGpus,
      },
      {
        key: "ratio",
        header: grid.ratio,
        align: "right",
        render: (each) => allocationRatio(each.allocatedGpus, each.totalResources.gpuQuota),
      },
      {
        key: "projects",
        header: grid.projects,
        render: (each) => <Projects department={each} />,
        csv: (each) => (each.projects ?? []).join(" "),
      },
      { key: "pools", header: grid.pools, optional: true, render: pools, csv: pools },
      {
        key: "subjects",
        header: grid.subjects,
        optional: true,
        render: (each) =>
          subjects
            ?.filter((one) => one.scopeName === each.name)
            .map((one) => one.subjectName || one.subjectId)
            .join(", ") || UNKNOWN,
      },
      {
        key: "workloads",
        header: grid.workloads,
        align: "right",
        optional: true,
        render: (each) => (
          <Link to="/workloads" search={{ f: [`departmentName==${each.name}`] } as never}>
            {inside(each).reduce((total, one) => total + one.workloads, 0)}
          </Link>
        ),
      },
      {
        key: "cluster",
        header: grid.cluster,
        optional: true,
        render: (each) => clusters?.find((one) => one.uuid === each.clusterId)?.name ?? grid.allClusters,
      },
      {
        key: "created",
        header: grid.created,
        sort: "createdAt",
        optional: true,
        render: (each) => <Moment at={each.createdAt} />,
        csv: (each) => each.createdAt,
      },
      { key: "actions", header: "", width: 40, render: (each) => <RowMenu department={each} acts={acts} /> },
    ];
    return columns;
  }, [shares, projects, clusters, subjects, acts]);
}

function poolQuota(deserved: number | null | undefined): string {
  return deserved == null ? text.form.sum : quota(deserved < 0 ? null : deserved);
}

const FEW = 4;

function Projects({ department }: { department: Department }) {
  const names = department.projects ?? department.children?.map((each) => each.name) ?? [];
  return (
    <span className={classes.projects}>
      {names.slice(0, FEW).map((each) => (
        <ProjectName key={each} project={each} />
      ))}
      {names.length > FEW && (
        <Link to="/projects" search={{ f: [`parentId==${department.name}`] } as never}>
          {text.grid.count(names.length)}
        </Link>
      )}
    </span>
  );
}

function RowMenu({ department, acts }: { department: Department; acts: Acts }) {
  const mayChange = useMay("department.update");
  const mayDelete = useMay("department.delete");
  const mayCreate = useMay("project.create");
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="sm" aria-label={text.grid.actions(department.name)}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {mayChange && <Menu.Item onClick={() => acts.edit(department.name)}>{frame.shared.edit}</Menu.Item>}
        {mayCreate && <Menu.Item onClick={() => acts.newProject(department.name)}>{text.grid.newProject}</Menu.Item>}
        {mayDelete && (
          <Menu.Item color="red" onClick={() => acts.remove(department)}>
            {frame.shared.delete}
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}

function DeleteDepartment({ department, onClose }: { department: Department | null; onClose: () => void }) {
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const remove = useMutation({
    mutationFn: (name: string) =>
      got(api.DELETE("/api/v1/org-unit/departments/{department_id}", { params: { path: { department_id: name } } })),
    onSuccess: (_, name) => {
      done(text.remove.done(name));
      for (const noun of ["departments", "shares"]) void queries.invalidateQueries({ queryKey: [noun] });
      onClose();
    },
  });
  const close = () => {
    remove.reset();
    onClose();
  };
  return (
    <Modal opened={department !== null} onClose={close} title={department ? text.remove.title(department.name) : ""}>
      {department !== null && (
        <Stack gap="sm">
          <p>{text.remove.hint}</p>
          {remove.error !== null && (
            <Notice tone="bad" title={text.remove.refused}>
              {remove.error.message}
            </Notice>
          )}
          <Group justify="flex-end">
            <Button onClick={close}>{frame.shared.cancel}</Button>
            <Button
              variant="filled"
              color="red"
              disabled={isHeld}
              loading={remove.isPending}
              onClick={() => remove.mutate(department.name)}
            >
              {frame.shared.delete}
            </Button>
          </Group>
        </Stack>
      )}
    </Modal>
  );
}
