import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { counted } from "@/model/format";
import { changeTarget, changeWords } from "@/model/waiting";
import { suspend } from "@/model/workloadActions";
import { text } from "@/text/why";
import { refused } from "./answers";
import classes from "./WhyPanel.module.css";

type Change = Schema<"WaitChange">;

/** What would change it, the best first; each was tried by the planner on the present state. */
export function WhyChanges({ changes, workload }: { changes: Change[]; workload: Schema<"WorkloadItem"> }) {
  if (changes.length === 0) return <p className={classes.none}>{text.noChanges}</p>;
  return (
    <ol className={classes.changes}>
      {changes.map((each, number) => (
        <li key={number} className={clsx(classes.change, each.effect === "no-gain" && classes.noGain)}>
          <span className={classes.number} aria-hidden="true">
            {number + 1}
          </span>
          <span className={clsx(classes.changeWords, "running")}>
            {changeWords(each)}
            {each.victims > 0 && ` · ${text.victims(each.victims)}`}
            {each.effect !== "no-gain" && (
              <>
                {" "}
                <ChangeLink change={each} workload={workload} />
              </>
            )}
          </span>
          <span className={classes.effect}>
            <strong>{text.effects[each.effect]}</strong>
            {each.effect !== "no-gain" && <span className={classes.micro}>{text.by[each.by]}</span>}
          </span>
        </li>
      ))}
    </ol>
  );
}

function linkWords(change: Change): string {
  if (change.kind === "raise-quota" || change.kind === "raise-limit") return text.tryWhatIf;
  if (change.kind === "fewer-gpus") return text.cloneWith(counted(change.after ?? 0, "GPU"));
  if (change.kind !== "return-nodes") return text.clone;
  return text.openSubject(change.subject);
}

function ChangeLink({ change, workload }: { change: Change; workload: Schema<"WorkloadItem"> }) {
  const target = changeTarget(change, workload.id);
  if (change.kind === "stop-own") return <StopOwn name={change.subject} workload={workload} />;
  if (target === null) return null;
  return (
    <Link to={target.to as never} search={target.search as never}>
      {linkWords(change)}
    </Link>
  );
}

/** Another workload of the project, by its name: it is looked up when the button is pressed. */
function StopOwn({ name, workload }: { name: string; workload: Schema<"WorkloadItem"> }) {
  const [isBusy, setBusy] = useState(false);
  const isHeld = useWritesHeld();
  const stop = async () => {
    setBusy(true);
    try {
      const query = { filterBy: `name==${name},projectId==${workload.projectId}`, limit: 1 };
      const [found] = (await got(api.GET("/api/v1/workloads", { params: { query } }))).workloads;
      if (found) await suspend([found.id]);
    } catch (error) {
      refused(error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Anchor component="button" type="button" fz="inherit" disabled={isBusy || isHeld} onClick={() => void stop()}>
      {text.stopIt(name)}
    </Anchor>
  );
}
