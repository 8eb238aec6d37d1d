import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ApiError } from "@/api/client";
import { Card } from "@/components/Card";
import { Loaded } from "@/components/states";

/** Whether the server does not let this reader see it: such parts are left out. */
export function isRefused(query: { error: unknown }): boolean {
  return query.error instanceof ApiError && (query.error.status === 403 || query.error.status === 404);
}

interface Props<T> {
  query: UseQueryResult<T>;
  title: ReactNode;
  label?: string;
  note?: ReactNode;
  aside?: ReactNode;
  flush?: boolean;
  className?: string | undefined;
  height?: number;
  rows?: number;
  children: (data: T) => ReactNode;
}

/** A card with the answer to one question. It loads and fails on its own. */
export function PartCard<T>({ query, children, height, rows, className, ...card }: Props<T>) {
  if (isRefused(query)) return null;
  return (
    <Card {...card} {...(className === undefined ? {} : { className })}>
      <Loaded query={query} {...(height === undefined ? {} : { height })} {...(rows === undefined ? {} : { rows })}>
        {children}
      </Loaded>
    </Card>
  );
}
