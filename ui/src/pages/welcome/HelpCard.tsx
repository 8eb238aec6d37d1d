import { Button } from "@mantine/core";
import { IconBook2, IconMail } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { clustersQuery, useMe } from "@/api/queries";
import { Card } from "@/components/Card";
import { CodeBlock } from "@/components/CopyText";
import { contactLink, contactName, messageLink } from "@/model/contact";
import { text } from "@/text/welcome";
import classes from "./Welcome.module.css";

const { help: words } = text;

/** Where to ask, and what to send along. */
export function HelpCard() {
  const facts = useFacts();
  const me = useMe();
  const mail = messageLink(me?.supportFeedback, words.subject, words.mailBody(facts));
  const isMail = mail.startsWith("mailto:");
  const contact = contactLink(me?.supportContact);
  return (
    <Card title={words.title}>
      <div className={classes.help}>
        <div className={classes.helpPart}>
          <div className={classes.row}>
            <Button component="a" href={mail} leftSection={<IconMail size={16} />}>
              {words.feedback}
            </Button>
            <Button component="a" href="/docs" leftSection={<IconBook2 size={16} />}>
              {words.api}
            </Button>
          </div>
          {isMail && <p className={classes.hint}>{me?.supportFeedback ? words.feedbackMail : words.feedbackHint}</p>}
          {contact !== null && (
            <p className={classes.fact}>
              {words.contact} <a href={contact}>{contactName(contact)}</a>
            </p>
          )}
          <p className={classes.fact}>{words.shortcuts}</p>
        </div>
        <div className={classes.helpPart}>
          <strong>{words.support}</strong>
          <p className={classes.hint}>{words.supportHint}</p>
          <CodeBlock label={words.support}>{facts}</CodeBlock>
        </div>
      </div>
    </Card>
  );
}

function useFacts(): string {
  const me = useMe();
  const clusters = useQuery(clustersQuery).data ?? [];
  const names = words.facts;
  const lines: [string, string][] = [
    [names.address, location.origin],
    [names.user, me?.username ?? ""],
    [names.roles, (me?.roles ?? []).join(", ")],
    [
      names.clusters,
      clusters.map((each) => `${each.name} ${each.version} ${each.status.state}`.replace("  ", " ")).join(", "),
    ],
    [names.browser, navigator.userAgent],
    [names.time, new Date().toISOString().slice(0, 16)],
  ];
  return lines.map(([name, value]) => `${name}: ${value}`).join("\n");
}
