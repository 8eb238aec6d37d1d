/** What policies come to in a project: parameter, default, rule, source. */
import { Modal, SegmentedControl, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { Loaded } from "@/components/states";
import { UNKNOWN } from "@/model/format";
import { text } from "@/text/projects";
import classes from "./ProjectForm.module.css";
import { policyRows } from "./policyRows";

export function PolicyDialog({ name, onClose }: { name: string | null; onClose: () => void }) {
  return (
    <Modal opened={name !== null} onClose={onClose} size="xl" title={name === null ? "" : text.policy.title(name)}>
      {name !== null && <Content name={name} />}
    </Modal>
  );
}

function Content({ name }: { name: string }) {
  const [kind, setKind] = useState<Schema<"PolicyType">>("workspace");
  const query = useQuery({
    queryKey: ["policy", "effective", name, kind],
    queryFn: () =>
      got(api.GET("/api/v2/policy/effective", { params: { query: { projectId: name, workloadType: kind } } })),
  });
  return (
    <Stack gap="md">
      <SegmentedControl
        size="xs"
        aria-label={text.policy.kind}
        value={kind}
        onChange={(next) => setKind(next as Schema<"PolicyType">)}
        data={Object.entries(text.policy.kinds).map(([value, label]) => ({ value, label }))}
      />
      <Loaded query={query} rows={4}>
        {(policy) => {
          const rows = policyRows(policy);
          if (rows.length === 0) return <p>{text.policy.none}</p>;
          return (
            <div className={classes.scroll}>
              <table className={classes.rules}>
                <thead>
                  <tr>
                    {[text.policy.parameter, text.policy.value, text.policy.rule, text.policy.source].map((each) => (
                      <th key={each} scope="col">
                        {each}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {rows.map((each) => (
                    <tr key={each.parameter}>
                      <td>
                        <code>{each.parameter}</code>
                      </td>
                      <td>{each.value || UNKNOWN}</td>
                      <td>{each.rule || UNKNOWN}</td>
                      <td>{each.source || UNKNOWN}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          );
        }}
      </Loaded>
      <Link to="/policies">{text.policy.edit}</Link>
    </Stack>
  );
}
