import { TagsInput } from "@mantine/core";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { nodesQuery } from "@/api/queries";
import { listed } from "@/model/format";
import { text } from "@/text/projects";
import type { TabProps } from "./GeneralTab";
import classes from "./ProjectForm.module.css";

const TYPE_LABEL = "run.ai/type";

/** The types that nodes have. */
export const nodeTypesQuery = queryOptions({
  ...nodesQuery,
  select: (nodes) => {
    const types = nodes.map((each) => each.labels?.[TYPE_LABEL]).filter((each) => each !== undefined);
    return [...new Set(types)].sort();
  },
});

interface Props extends Pick<TabProps, "error"> {
  values: { training: string[]; workspace: string[] };
  onChange: (change: { training?: string[]; workspace?: string[] }) => void;
  /** Whose department may say something; none: of a department. */
  project?: TabProps["project"];
}

/** On which nodes the project's work may run. */
export function NodeTypesTab({ values, onChange, project, error }: Props) {
  const types = useQuery(nodeTypesQuery).data ?? [];
  const inherited = (own: string[], effective: string[] | undefined) =>
    own.length === 0 && effective?.length ? text.form.effective(listed(effective)) : text.form.typesHint;
  const effective = project?.effective.nodeTypes;
  return (
    <div className={classes.form}>
      <TagsInput
        label={text.form.training}
        description={inherited(values.training, effective?.training)}
        placeholder={text.form.addType}
        data={types}
        value={values.training}
        onChange={(training) => onChange({ training })}
        error={error?.of("nodeTypes.training")?.what}
      />
      <TagsInput
        label={text.form.interactive}
        description={inherited(values.workspace, effective?.workspace)}
        placeholder={text.form.addType}
        data={types}
        value={values.workspace}
        onChange={(workspace) => onChange({ workspace })}
        error={error?.of("nodeTypes.workspace")?.what}
      />
    </div>
  );
}
