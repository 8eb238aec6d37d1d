import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { text } from "@/text/notOpen";
import { Page } from "./Page";
import { Empty } from "./states";

/** A page that the reader's roles do not open. */
export function NotOpen({ title }: { title: string }) {
  return (
    <Page title={title}>
      <Empty
        title={text.title}
        hint={text.hint}
        action={
          <Button component={Link} to="/profile">
            {text.toProfile}
          </Button>
        }
      />
    </Page>
  );
}
