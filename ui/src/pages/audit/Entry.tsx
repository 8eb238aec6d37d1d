import { Drawer } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { api, got, type Schema } from "@/api/client";
import { CopyIcon } from "@/components/CopyText";
import { Empty, Loaded } from "@/components/states";
import { exactMoment, UNKNOWN } from "@/model/format";
import { text } from "@/text/audit";
import classes from "./Audit.module.css";
import { fieldChanges, kindOfChange } from "./changes";
import { actionWord, Result } from "./Result";

type AuditEntry = Schema<"AuditEntry">;

/** One entry beside the list: who, what, from where, and what was different afterwards. */
export function EntryPane({ id, onClose }: { id: string | null; onClose: () => void }) {
  const query = useQuery({
    queryKey: ["audit", "entry", id],
    enabled: id !== null,
    queryFn: async () => {
      const page = await got(api.GET("/api/v1/audit/log", { params: { query: { filterBy: `id==${id}`, limit: 1 } } }));
      return page.entries[0] ?? null;
    },
  });
  return (
    <Drawer
      opened={id !== null}
      onClose={onClose}
      position="right"
      size="lg"
      title={<strong>{text.entry(id ?? "")}</strong>}
    >
      {id !== null && (
        <Loaded query={query} rows={10}>
          {(entry) => (entry === null ? <Empty title={text.noEntry} /> : <EntryFacts entry={entry} />)}
        </Loaded>
      )}
    </Drawer>
  );
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className={classes.fact}>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Only({ filter, children }: { filter: string; children: ReactNode }) {
  return (
    <Link to="/audit" search={{ f: [filter], period: "all" } as never}>
      {children}
    </Link>
  );
}

function EntryFacts({ entry }: { entry: AuditEntry }) {
  const { columns } = text;
  const problem = entry.metadata?.problem;
  return (
    <>
      <dl className={classes.facts}>
        <Fact label={columns.timestamp}>{exactMoment(entry.timestamp)}</Fact>
        <Fact label={columns.subject}>
          {entry.subject || UNKNOWN} ({entry.subject_type}){" "}
          {entry.subject && <Only filter={`subject==${entry.subject}`}>{text.who}</Only>}
        </Fact>
        <Fact label={columns.source_ip}>{entry.source_ip || text.ownMachine}</Fact>
        <Fact label={columns.action}>{actionWord(entry.action)}</Fact>
        <Fact label={columns.result}>
          <Result result={entry.result} />
          {entry.http_status_code != null && ` ${entry.http_status_code}`}
        </Fact>
        {problem && <Fact label={text.refusedBecause}>{problem}</Fact>}
        <Fact label={columns.entity_type}>{entry.entity_type}</Fact>
        <Fact label={columns.entity_name}>{entry.entity_name || UNKNOWN}</Fact>
        <Fact label={columns.entity_id}>
          {entry.entity_id || UNKNOWN}{" "}
          {entry.entity_id && <Only filter={`entity_id==${entry.entity_id}`}>{text.sameEntity}</Only>}
        </Fact>
        <Fact label={columns.url}>{`${entry.http_method} ${entry.url}`}</Fact>
        <Fact label={columns.request_id}>
          {entry.request_id || UNKNOWN}{" "}
          {entry.request_id && <Only filter={`request_id==${entry.request_id}`}>{text.sameRequest}</Only>}
        </Fact>
        <Fact label={text.hash}>
          <span className={classes.hash}>{entry.hash || UNKNOWN}</span>
          {entry.hash && <CopyIcon value={`${entry.id}:${entry.hash}`} label={text.hash} />}
        </Fact>
      </dl>
      <h2 className={classes.heading}>{text.changes}</h2>
      {(entry.changes ?? []).length === 0 && <p className={classes.none}>{text.noChanges}</p>}
      {(entry.changes ?? []).map((change) => (
        <ChangeTable key={`${change.kind} ${change.id}`} change={change} />
      ))}
    </>
  );
}

function ChangeTable({ change }: { change: Schema<"AuditChange"> }) {
  const rows = fieldChanges(change);
  return (
    <section className={classes.change}>
      <h3 className={classes.object}>
        {`${change.kind} ${change.id}`} <span className={classes.kind}>{text[kindOfChange(change)]}</span>
      </h3>
      {change.fields && <p className={classes.none}>{text.cutFields(change.fields.join(", "))}</p>}
      {rows.length > 0 && (
        <table className={classes.diff}>
          <thead>
            <tr>
              <th scope="col">{text.field}</th>
              {change.before && <th scope="col">{text.before}</th>}
              {change.after && <th scope="col">{text.after}</th>}
            </tr>
          </thead>
          <tbody>
            {rows.map((each) => (
              <tr key={each.field}>
                <th scope="row">{each.field}</th>
                {change.before && <td className={classes.was}>{each.before ?? UNKNOWN}</td>}
                {change.after && <td className={classes.is}>{each.after ?? UNKNOWN}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}
