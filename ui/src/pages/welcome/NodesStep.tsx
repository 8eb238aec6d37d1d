import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { Schema } from "@/api/client";
import { devicesQuery, useMay } from "@/api/queries";
import { CodeBlock } from "@/components/CopyText";
import { Loading } from "@/components/states";
import { text } from "@/text/welcome";
import { Step } from "./Step";
import classes from "./Welcome.module.css";

const GpuCanvas = lazy(() => import("@/components/gpuMap/GpuCanvas").then((module) => ({ default: module.GpuCanvas })));
const MAP_HEIGHT = 150;
const { nodes: words } = text;

export interface Found {
  nodes: number;
  gpus: number;
  isSimulated: boolean;
}

export function useFoundNodes(): Found | undefined {
  const page = useQuery(devicesQuery).data;
  if (page === undefined) return undefined;
  return { nodes: page.nodes.length, gpus: page.devices, isSimulated: page.nodes.some((each) => each.simulated) };
}

export function NodesStep({ isCurrent }: { isCurrent: boolean }) {
  const page = useQuery(devicesQuery).data as unknown as Schema<"DevicePage"> | undefined;
  const found = useFoundNodes();
  const mayAdd = useMay("cluster.create");
  if (found === undefined || page === undefined)
    return (
      <Step number={1} title={words.title} isDone={false} isCurrent={isCurrent}>
        <Loading height={40} />
      </Step>
    );
  if (found.nodes === 0)
    return (
      <Step number={1} title={words.title} isDone={false} isCurrent={isCurrent}>
        <p className={classes.fact}>{words.searching}</p>
        {mayAdd ? (
          <>
            <p className={classes.hint}>{words.run}</p>
            <CodeBlock>{words.command}</CodeBlock>
            <div className={classes.row}>
              <span className={classes.hint}>{words.cluster}</span>
              <Button component={Link} to="/clusters" size="xs">
                {words.addCluster}
              </Button>
            </div>
          </>
        ) : (
          <p className={classes.hint}>{words.ask}</p>
        )}
      </Step>
    );
  return (
    <Step
      number={1}
      title={words.title}
      isDone
      isCurrent={false}
      aside={
        <span className={classes.fact}>
          {found.gpus === 0 ? words.noGpus(found.nodes) : words.found(found.nodes, found.gpus)}
        </span>
      }
    >
      <div className={classes.found}>
        <div className={classes.formNotes}>
          <p className={classes.hint}>{words.types(typeCounts(page))}</p>
          <Link to="/map" className={classes.small}>
            {words.map}
          </Link>
          {found.isSimulated && <p className={classes.hint}>{words.simulated}</p>}
        </div>
        {found.gpus > 0 && (
          <Suspense fallback={<Loading height={MAP_HEIGHT} />}>
            <GpuCanvas page={page} height={MAP_HEIGHT} compact />
          </Suspense>
        )}
      </div>
    </Step>
  );
}

function typeCounts(page: Schema<"DevicePage">): [string, number][] {
  const counted = new Map<string, number>();
  for (const each of page.nodes) if (each.gpus > 0) counted.set(each.type, (counted.get(each.type) ?? 0) + each.gpus);
  return [...counted];
}
