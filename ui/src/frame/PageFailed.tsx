import { type ErrorComponentProps, useRouter } from "@tanstack/react-router";
import { Page } from "@/components/Page";
import { Failed } from "@/components/states";
import { text } from "@/text/frame";

/** A page that failed to load or to draw. The frame around it stays. */
export function PageFailed({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  return (
    <Page title={text.shared.failed}>
      <Failed
        error={error}
        onRetry={() => {
          reset();
          void router.invalidate();
        }}
      />
    </Page>
  );
}
