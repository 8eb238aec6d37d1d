import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Page } from "@/components/Page";
import { Empty } from "@/components/states";
import { text } from "@/text/frame";

export function NotFound() {
  return (
    <Page title={text.shared.notFound}>
      <Empty
        title={text.shared.notFound}
        hint={text.shared.notFoundHint}
        action={
          <Button component={Link} to="/">
            {text.shared.toOverview}
          </Button>
        }
      />
    </Page>
  );
}
