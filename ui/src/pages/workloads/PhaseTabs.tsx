import type { ListState } from "@/model/filters";
import { text } from "@/text/workloads";
import { phaseOf, type WorkloadList } from "./reading";
import classes from "./Workloads.module.css";

interface Props {
  state: ListState;
  onState: (change: Partial<ListState>) => void;
  counts: WorkloadList["counts"] | undefined;
}

/** The list by phase. Other filters and the search stay. */
export function PhaseTabs({ state, onState, counts }: Props) {
  const current = phaseOf(state);
  const others = state.filters.filter((each) => each.field !== "phase");
  const tabs: [string | null, string, number | undefined][] = [
    [null, text.tabs.all, undefined],
    ["Running", text.tabs.running, counts?.running],
    ["Pending", text.tabs.pending, counts?.pending],
    ["Failed", text.tabs.failed, counts?.failed],
    ["Completed", text.tabs.done, undefined],
    ["Deleted", text.tabs.deleted, undefined],
  ];
  return (
    <nav className={classes.tabs} aria-label={text.tabsLabel}>
      {tabs.map(([phase, label, count]) => (
        <a
          key={label}
          className={classes.tab}
          href={phase === null ? "/workloads" : `/workloads?f=phase==${phase}`}
          aria-current={current === phase ? "page" : undefined}
          onClick={(event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            onState({
              filters: phase === null ? others : [...others, { field: "phase", operator: "==", value: phase }],
            });
          }}
        >
          {label}
          {count !== undefined && <span className={classes.count}>{count}</span>}
        </a>
      ))}
    </nav>
  );
}
