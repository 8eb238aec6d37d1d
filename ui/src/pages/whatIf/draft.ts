/** What is typed into the form, and the change that it is. */
import type { OneChange } from "@/model/whatIf";
import type { text } from "@/text/whatIf";

export type Kind = keyof typeof text.kinds;

export interface Draft {
  kind: Kind;
  /** A node, a job's id, a policy's name, `project.NAME` or `department.NAME`. */
  name: string;
  /** Of a new job. */
  job: string;
  value: string;
  amount: number | string;
  count: number | string;
  isUnlimited: boolean;
}

export const EMPTY: Draft = { kind: "quota", name: "", job: "", value: "", amount: "", count: 1, isUnlimited: false };

/** Null: something is missing. What is wrong in itself, the planner says. */
export function changeOf(draft: Draft): OneChange | null {
  const { kind, name, job, value } = draft;
  const amount = draft.amount === "" ? null : Number(draft.amount);
  const count = Math.max(1, Number(draft.count) || 1);
  const set = (text: string, isWhole: boolean): OneChange | null => (isWhole ? { list: "set", text } : null);
  switch (kind) {
    case "quota":
    case "limit":
      return set(
        `${name}.${kind}=${draft.isUnlimited ? "unlimited" : amount}`,
        name !== "" && (draft.isUnlimited || amount !== null),
      );
    case "over_quota":
      return set(`${name}.over_quota=${value}`, name !== "" && value !== "");
    case "cordoned":
      return set(`node.${name}.cordoned=true`, name !== "");
    case "priority":
      return set(`group.${name}.priority=${amount}`, name !== "" && amount !== null);
    case "placement":
      return set(`pool.gpu_placement=${value}`, value !== "");
    case "policy":
      return set(`policy.${name}=${amount}`, name !== "" && amount !== null);
    case "withoutNode":
    case "withoutJob":
      return name === "" ? null : { list: kind, text: name };
    case "addNode":
      return name === "" ? null : { list: kind, text: newNodes(name, count) };
    case "addJob":
      return name === "" || job === "" || amount === null
        ? null
        : { list: kind, text: newJob(job, name, amount, count, value || "train") };
    case "later":
      return value.trim() === "" ? null : { list: kind, text: value.trim() };
  }
}

function newNodes(like: string, count: number): string {
  return `name=${like}-new,like=${like}${count > 1 ? `,count=${count}` : ""}`;
}

function newJob(job: string, project: string, gpus: number, pods: number, kind: string): string {
  const parts = [`name=${job}`, `project=${project}`, `gpus=${gpus}`];
  if (pods > 1) parts.push(`pods=${pods}`);
  if (kind !== "train") parts.push(`kind=${kind}`);
  return parts.join(",");
}
