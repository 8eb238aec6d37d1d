import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Schema } from "@/api/client";
import type { Column } from "@/components/Grid";
import { Moment } from "@/components/Moment";
import { bytes, gpus, percent, UNKNOWN } from "@/model/format";
import { text } from "@/text/nodes";
import { NodeStatus } from "./NodeStatus";
import { rolesOf, stateOf, TYPE_LABEL } from "./nodeState";
import classes from "./nodes.module.css";

export type Node = Schema<"NodeAnswer">;
type Measured = Schema<"MeasuredNode"> | null | undefined;

export interface NodeFacts {
  measured: (node: Node) => Measured;
  strip: (node: Node) => ReactNode;
  cluster: (node: Node) => string;
  actions: (node: Node) => ReactNode;
}

const MIB = 1024 * 1024;
export const gpuMemory = (node: Node): number => node.gpuInfo.gpuCount * node.gpuInfo.gpuMemoryMib * MIB;

export function freeDevices(node: Node): number | null {
  const parts = node.gpuInfo.allocatedByDevice;
  if (parts === undefined) return null;
  const withheld = new Set(node.gpuInfo.withheld ?? []);
  return parts.filter((part, index) => part === 0 && !withheld.has(index)).length;
}

export function hottest(measured: Measured): number | null {
  const known = (measured?.devices ?? []).map((each) => each.temperatureCelsius).filter((each) => each != null);
  return known.length === 0 ? null : Math.max(...known);
}

const share = (part: number | null | undefined, whole: number | null | undefined): number | null =>
  part == null || !whole ? null : (100 * part) / whole;

export const cpuUtil = (node: Node, measured: Measured): number | null =>
  share(measured?.cpuCores, node.cpuMilli == null ? null : node.cpuMilli / 1000);

const cores = (milli: number | null | undefined): string => (milli == null ? UNKNOWN : (milli / 1000).toFixed(0));

export function nodeColumns(facts: NodeFacts): Column<Node>[] {
  const { grid } = text;
  const column = (
    key: string,
    header: string,
    value: (node: Node, measured: Measured) => string | number | null,
    more: Partial<Column<Node>> = {},
  ): Column<Node> => ({
    key,
    header,
    render: (node) => value(node, facts.measured(node)) ?? UNKNOWN,
    csv: (node) => value(node, facts.measured(node)),
    ...more,
  });
  const number = { align: "right" as const };
  const more = { ...number, optional: true };
  return [
    column("name", grid.node, (node) => node.name, {
      sort: "name",
      render: (node) => (
        <Link
          to="/nodes/$node"
          params={{ node: node.name } as never}
          search={{ cluster: node.clusterUuid } as never}
          className={classes.name}
        >
          {node.name}
        </Link>
      ),
    }),
    column("state", grid.state, (node) => stateOf(node).kind, {
      sort: "status",
      render: (node) => <NodeStatus node={node} plain />,
    }),
    column("pool", grid.pool, (node) => node.nodePool, {
      sort: "nodePool",
      render: (node) => (
        <Link to="/node-pools" search={{ open: node.nodePool } as never}>
          {node.nodePool}
        </Link>
      ),
    }),
    column("type", grid.type, (node) => node.gpuInfo.gpuType || UNKNOWN, { sort: "gpuType" }),
    { key: "devices", header: grid.devices, render: facts.strip },
    column("allocated", grid.allocated, (node) => gpus(node.gpuInfo.allocated), { ...number, sort: "allocatedGPU" }),
    column("count", grid.count, (node) => node.gpuInfo.gpuCount, { ...more, sort: "gpuCount" }),
    column("free", grid.free, freeDevices, more),
    column("util", grid.util, (_, measured) => percent(measured?.gpuUtilization), number),
    column(
      "memoryUtil",
      grid.memoryUtil,
      (node, measured) => percent(share(measured?.gpuMemoryBytes, gpuMemory(node))),
      number,
    ),
    column(
      "temperature",
      grid.temperature,
      (_, measured) => {
        const value = hottest(measured);
        return value === null ? UNKNOWN : text.celsius(value);
      },
      number,
    ),
    column("cpuUtil", grid.cpuUtil, (node, measured) => percent(cpuUtil(node, measured)), number),
    column("pods", grid.pods, (node) => node.pods, { ...number, sort: "pods" }),
    column("memory", grid.memory, (node) => bytes(gpuMemory(node)), more),
    column("usedMemory", grid.usedMemory, (_, measured) => bytes(measured?.gpuMemoryBytes), more),
    column("cpu", grid.cpu, (node) => cores(node.cpuMilli), more),
    column("cpuAllocated", grid.cpuAllocated, (node) => cores(node.cpuAllocatedMilli), more),
    column("cpuMemory", grid.cpuMemory, (node) => bytes(node.memoryBytes), more),
    column("memoryAllocated", grid.memoryAllocated, (node) => bytes(node.memoryAllocatedBytes), more),
    column("memoryUsed", grid.memoryUsed, (_, measured) => bytes(measured?.memoryBytes), more),
    column("nodeType", grid.nodeType, (node) => node.labels?.[TYPE_LABEL] ?? UNKNOWN, { optional: true }),
    column(
      "role",
      grid.role,
      (node) =>
        rolesOf(node)
          .map((each) => text.edit.roleNames[each])
          .join(", ") || UNKNOWN,
      {
        optional: true,
      },
    ),
    column("cluster", grid.cluster, facts.cluster, { optional: true }),
    column("created", grid.created, (node) => node.createdAt, {
      optional: true,
      sort: "createdAt",
      render: (node) => <Moment at={node.createdAt} />,
    }),
    { key: "actions", header: "", width: 40, render: facts.actions },
  ];
}
