import { useRouter } from "@tanstack/react-router";
import type { MouseEvent, ReactNode } from "react";

interface Props {
  /** The path within the web UI. */
  to: string;
  className?: string | undefined;
  title?: string;
  children: ReactNode;
}

/** A link of a row. The router's own compares itself with the address whenever that changes, to tell whether it leads
 * to where one is: with a hundred of them in a list, each sort would wait for it. */
export function RowLink({ to, className, title, children }: Props) {
  const router = useRouter();
  const go = (event: MouseEvent) => {
    if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    void router.navigate({ to } as never);
  };
  return (
    <a
      href={to}
      className={className}
      title={title}
      onClick={go}
      onPointerEnter={() => void router.preloadRoute({ to } as never)}
    >
      {children}
    </a>
  );
}
