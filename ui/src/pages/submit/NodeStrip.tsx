import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, got } from "@/api/client";
import { text } from "@/text/submit";
import classes from "./Verdict.module.css";

/** The GPUs of a node, each as full as it is held now. */
export function NodeStrip({ node, pods }: { node: string; pods: number }) {
  const found = useQuery({
    queryKey: ["nodes", "one", node],
    queryFn: async () => {
      const page = await got(api.GET("/api/v1/nodes", { params: { query: { filterBy: `name==${node}`, limit: 1 } } }));
      return page.nodes[0] ?? null;
    },
  }).data;
  const held = found?.gpuInfo?.allocatedByDevice ?? [];
  const free = held.filter((each) => each === 0).length;
  return (
    <div className={classes.strip}>
      <Link to="/nodes/$node" params={{ node }} className={classes.name}>
        {node}
      </Link>
      <span
        className={classes.cells}
        role="img"
        aria-label={`${text.verdict.devices(node)}: ${text.verdict.free(free, held.length)}`}
      >
        {held.slice(0, 16).map((each, number) => (
          <span key={number} className={classes.cell}>
            <span style={{ width: `${Math.min(100, each * 100)}%` }} />
          </span>
        ))}
      </span>
      <span className={classes.dim}>{held.length > 0 ? text.verdict.free(free, held.length) : ""}</span>
      {pods > 1 && <span className={classes.dim}>{text.verdict.pods(pods)}</span>}
    </div>
  );
}
