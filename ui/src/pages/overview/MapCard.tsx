import type { UseQueryResult } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lazy, Suspense } from "react";
import type { Schema } from "@/api/client";
import type { Shares } from "@/components/gpuMap/mapModel";
import { Empty, Loading } from "@/components/states";
import { text } from "@/text/overview";
import { PartCard } from "./PartCard";

const GpuCanvas = lazy(() => import("@/components/gpuMap/GpuCanvas").then((module) => ({ default: module.GpuCanvas })));
const { map: words } = text;
const HEIGHT = 380;

interface Props {
  query: UseQueryResult<Schema<"DevicePage">>;
  shares: Shares | undefined;
  className?: string | undefined;
}

/** Every device and who holds it. */
export function MapCard({ query, shares, className }: Props) {
  const isSimulated = query.data?.nodes.some((each) => each.simulated && each.gpus > 0) ?? false;
  return (
    <PartCard
      query={query}
      className={className}
      title={words.title}
      note={isSimulated ? words.simulated : words.note}
      height={240}
      aside={<Link to="/map">{words.open}</Link>}
    >
      {(page) =>
        page.devices === 0 ? (
          <Empty title={words.empty} hint={words.emptyHint} />
        ) : (
          <Suspense fallback={<Loading height={HEIGHT} />}>
            <GpuCanvas page={page} height={HEIGHT} compact shares={shares} />
          </Suspense>
        )
      }
    </PartCard>
  );
}
