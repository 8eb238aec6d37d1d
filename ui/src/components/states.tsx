/** What is shown in place of content: nothing there yet, still loading, could not be loaded. */
import { Button, Skeleton } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useEffect, useState } from "react";
import { ApiError } from "@/api/client";
import { text } from "@/text/frame";
import classes from "./states.module.css";

export function Empty({ title, hint, action }: { title: string; hint?: ReactNode; action?: ReactNode }) {
  return (
    <div className={classes.state} data-state="empty">
      <p className={classes.title}>{title}</p>
      {hint !== undefined && <p className={classes.hint}>{hint}</p>}
      {action}
    </div>
  );
}

/** What failed, its request id, and a way to try again. The rest of the page goes on. */
export function Failed({ error, onRetry, what }: { error: unknown; onRetry?: () => void; what?: string }) {
  const known = error instanceof ApiError ? error : null;
  return (
    <div className={classes.state} role="alert" data-state="error">
      <p className={classes.title}>{what ?? text.shared.failed}</p>
      <p className={classes.hint}>
        {error instanceof Error ? error.message : String(error)}
        {known?.problems[0]?.fix ? ` – ${known.problems[0].fix}` : ""}
      </p>
      {known?.requestId && <p className={classes.id}>{text.shared.requestId(known.requestId)}</p>}
      {onRetry && <Button onClick={onRetry}>{text.shared.retry}</Button>}
    </div>
  );
}

/** Bars of the final size, after 150 ms, so that a quick answer does not flicker. */
export function Loading({ height = 120, rows }: { height?: number; rows?: number }) {
  const [isShown, show] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => show(true), 150);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div
      style={{ minHeight: rows === undefined ? height : rows * 34 }}
      className={classes.loading}
      data-state="loading"
      role="status"
      aria-label={text.shared.loading}
    >
      {isShown &&
        (rows === undefined ? (
          <Skeleton height={height} radius={6} />
        ) : (
          Array.from({ length: rows }, (_, row) => <Skeleton key={row} height={18} my={8} radius={4} />)
        ))}
    </div>
  );
}

interface Props<T> {
  query: UseQueryResult<T>;
  height?: number;
  rows?: number;
  children: (data: T) => ReactNode;
}

/** The content of a query, or its state. Data that could not be read again stays. */
export function Loaded<T>({ query, height, rows, children }: Props<T>) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.isError) return <Failed error={query.error} onRetry={() => void query.refetch()} />;
  return <Loading {...(height === undefined ? {} : { height })} {...(rows === undefined ? {} : { rows })} />;
}
