import { IconExternalLink } from "@tabler/icons-react";
import { UNKNOWN } from "@/model/format";
import classes from "./Workloads.module.css";

/** Addresses that a workload serves. Only those of the web are made links. */
export function WorkloadLinks({ urls }: { urls: readonly string[] }) {
  if (urls.length === 0) return <>{UNKNOWN}</>;
  return (
    <span className={classes.links}>
      {urls.map((url) =>
        isWeb(url) ? (
          <a key={url} href={url} target="_blank" rel="noopener noreferrer" title={url}>
            {lastPart(url)}
            <IconExternalLink size={12} aria-hidden="true" />
          </a>
        ) : (
          <span key={url}>{url}</span>
        ),
      )}
    </span>
  );
}

export function isWeb(url: string): boolean {
  return /^https?:\/\//i.test(url);
}

/** The part of an address that tells it from others: `nb-8888`. */
export function lastPart(url: string): string {
  return url.replace(/\/+$/, "").split("/").pop() || url;
}
