import type { Schema } from "@/api/client";
import { StatusBadge } from "@/components/StatusBadge";
import { moment } from "@/model/format";
import { text } from "@/text/nodes";
import { stateOf } from "./nodeState";
import classes from "./nodes.module.css";

/** The state of a node in words, with its reason; devices that are withheld say why. */
export function NodeStatus({ node, plain = false }: { node: Schema<"NodeAnswer">; plain?: boolean }) {
  const state = stateOf(node);
  const words = {
    ready: text.states.ready,
    drained: text.states.drained,
    draining: text.states.draining(node.pods),
    cordoned: text.states.cordoned,
    silent: text.states.silent(moment(node.silentSince)),
    notReady: text.states.notReady,
    unknown: text.states.unknown,
  }[state.kind];
  return (
    <span className={classes.status}>
      <StatusBadge phase={state.phase} word={words} plain={plain} />
      {state.withheld.length > 0 && (
        <span
          className={classes.withheld}
          title={text.withheldWhy(state.withheld.join(", "), node.gpuInfo.withheldBecause)}
        >
          {`${text.states.withheld(state.withheld.length)}: ${node.gpuInfo.withheldBecause}`}
        </span>
      )}
    </span>
  );
}
