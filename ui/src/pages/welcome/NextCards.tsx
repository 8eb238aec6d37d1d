import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useMay } from "@/api/queries";
import { Card } from "@/components/Card";
import { text } from "@/text/welcome";
import classes from "./Welcome.module.css";

/** What to do when the notebook is open. */
export function NextCards() {
  const mayInvite = useMay("user.create");
  const entries = [
    { ...text.next.submit, to: "/submit" },
    { ...text.next.commandLine, to: "/command-line" },
    ...(mayInvite ? [{ ...text.next.invite, to: "/access" }] : []),
  ];
  return (
    <div className={classes.cards}>
      {entries.map((each) => (
        <Card key={each.to} title={each.title}>
          <div className={classes.card}>
            <p>{each.hint}</p>
            <Button component={Link} to={each.to}>
              {each.action}
            </Button>
          </div>
        </Card>
      ))}
    </div>
  );
}
