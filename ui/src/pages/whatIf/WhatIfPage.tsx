/** Both plans, before something is decided: the live state as it is, and with changes. */
import { Button, Group, Select } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, got } from "@/api/client";
import { done } from "@/components/answers";
import { Card } from "@/components/Card";
import { Moment } from "@/components/Moment";
import { Page } from "@/components/Page";
import { Failed, Loading } from "@/components/states";
import { useOneCluster } from "@/frame/cluster";
import {
  type Changes,
  changesSearch,
  countOf,
  oneByOne,
  readChanges,
  requestOf,
  withChange,
  without,
} from "@/model/whatIf";
import { text } from "@/text/whatIf";
import { ApplyDialog } from "./ApplyDialog";
import { ChangeChips } from "./ChangeChips";
import { ChangeForm } from "./ChangeForm";
import { Examples } from "./Examples";
import { useLive } from "./live";
import { Plans } from "./Plans";
import { leftAfter } from "./steps";

const DEBOUNCE_MS = 200;

/** The plan with the changes. A question that is outdated is aborted; a change of the cluster asks again. */
function usePlans(cluster: string | undefined, pool: string | undefined, changes: Changes) {
  const written = JSON.stringify(requestOf(changes, pool));
  const [settled] = useDebouncedValue(written, DEBOUNCE_MS);
  const query = useQuery({
    queryKey: ["planned", "what-if", cluster, settled],
    enabled: cluster !== undefined && pool !== undefined && countOf(changes) > 0,
    placeholderData: keepPreviousData,
    retry: false,
    queryFn: ({ signal }) =>
      got(
        api.POST("/api/v1/clusters/{cluster_id}/what-if", {
          params: { path: { cluster_id: cluster! } },
          body: JSON.parse(settled),
          signal,
        }),
      ),
  });
  return { query, isCurrent: written === settled && !query.isFetching && !query.isPlaceholderData };
}

export function WhatIfPage() {
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const changes = useMemo(() => readChanges(search), [search]);
  const cluster = useOneCluster();
  const chosen = typeof search.pool === "string" ? search.pool : undefined;
  const live = useLive(cluster?.uuid, chosen);
  const pool = chosen ?? live.pools[0];
  const { query, isCurrent } = usePlans(cluster?.uuid, pool, changes);
  const [isApplying, apply] = useState(false);
  const set = (next: Changes, inPool = chosen) =>
    void navigate({
      to: ".",
      replace: false,
      search: (before: Record<string, unknown>) => ({ ...before, ...changesSearch(next), pool: inPool }),
    } as never);
  const nameOfJob = (id: string) => live.jobs.find((each) => each.id === id)?.name ?? id;
  const count = countOf(changes);
  return (
    <Page
      title={text.title}
      lead={text.lead}
      actions={
        count > 0 && (
          <Group gap={8}>
            <Button onClick={() => void navigator.clipboard.writeText(location.href).then(() => done(text.linkCopied))}>
              {text.copyLink}
            </Button>
            <Button variant="filled" onClick={() => apply(true)} disabled={query.isError || !isCurrent}>
              {text.apply.button}
            </Button>
          </Group>
        )
      }
    >
      <Card
        title={text.changes}
        note={query.data !== undefined && count > 0 ? <TakenAt at={query.data.takenAt} /> : undefined}
        aside={
          live.pools.length > 1 && (
            <Select
              size="xs"
              aria-label={text.pool}
              data={live.pools}
              value={pool ?? null}
              onChange={(value) => set(changes, value ?? undefined)}
              allowDeselect={false}
            />
          )
        }
      >
        {count === 0 ? (
          <Examples live={live} onTry={(one) => set(withChange(changes, one))} />
        ) : (
          <ChangeChips
            changes={oneByOne(changes)}
            sentences={isCurrent && !query.isError ? (query.data?.changes ?? []) : []}
            nameOfJob={nameOfJob}
            onRemove={(one) => set(without(changes, one))}
            onClear={() => set(readChanges({}))}
          />
        )}
        <ChangeForm live={live} onAdd={(one) => set(withChange(changes, one))} />
      </Card>
      {count > 0 &&
        (query.isError ? (
          <Card>
            <Failed error={query.error} what={text.failed} onRetry={() => void query.refetch()} />
          </Card>
        ) : query.data === undefined ? (
          <Loading height={320} />
        ) : (
          <Plans answer={query.data} changes={changes} live={live} isCurrent={isCurrent} />
        ))}
      {isApplying && (
        <ApplyDialog
          changes={changes}
          cluster={cluster?.uuid ?? ""}
          pool={query.data?.nodePool ?? pool ?? "default"}
          nameOfJob={nameOfJob}
          onClose={(made) => {
            apply(false);
            if (made.length > 0) set(leftAfter(changes, made));
          }}
        />
      )}
    </Page>
  );
}

function TakenAt({ at }: { at: string }) {
  const [before, after] = text.from("\0").split("\0");
  return (
    <>
      {before}
      <Moment at={at} />
      {after}
    </>
  );
}
