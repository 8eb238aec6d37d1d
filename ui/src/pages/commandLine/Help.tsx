import { Button, CopyButton, Group, Modal, Stack, Textarea } from "@mantine/core";
import { IconMessage } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useMe } from "@/api/queries";
import { Card } from "@/components/Card";
import { contactLink, contactName, messageLink } from "@/model/contact";
import { text } from "@/text/commandLine";
import { text as frame } from "@/text/frame";
import classes from "./CommandLine.module.css";

const { help: words } = text;

export function Help({ version }: { version: string }) {
  const [isOpen, setOpen] = useState(false);
  const contact = contactLink(useMe()?.supportContact);
  return (
    <Card
      title={words.title}
      aside={
        <Button size="xs" leftSection={<IconMessage size={14} />} onClick={() => setOpen(true)}>
          {words.feedback}
        </Button>
      }
    >
      <ul className={classes.links}>
        <li>
          <a href="/api/docs">{words.api}</a>
          <span>{words.apiHint}</span>
        </li>
        <li>
          <Link to="/welcome">{words.guide}</Link>
          <span>{words.guideHint}</span>
        </li>
        <li>
          <Link to="/profile" search={{ tab: "notifications" } as never}>
            {words.alerts}
          </Link>
          <span>{words.alertsHint}</span>
        </li>
        <li>
          <a href="/metrics">{words.metrics}</a>
          <span>{words.metricsHint}</span>
        </li>
        <li>
          {contact === null ? (
            <>
              <strong>{words.support}</strong>
              <span>{words.supportHint}</span>
            </>
          ) : (
            <>
              <a href={contact}>{words.support}</a>
              <span>{contactName(contact)}</span>
            </>
          )}
        </li>
      </ul>
      <Modal opened={isOpen} onClose={() => setOpen(false)} title={words.feedbackTitle}>
        {isOpen && <Feedback version={version} />}
      </Modal>
    </Card>
  );
}

function Feedback({ version }: { version: string }) {
  const [said, setSaid] = useState("");
  const context = words.context({
    version,
    page: document.referrer || location.href,
    browser: navigator.userAgent,
    at: new Date().toISOString(),
  });
  const whole = `${said}\n\n${context}`;
  const link = messageLink(useMe()?.supportFeedback, words.subject, whole);
  return (
    <Stack gap="sm">
      <Textarea
        size="sm"
        label={words.feedbackLabel}
        autosize
        minRows={5}
        maxRows={14}
        data-autofocus
        value={said}
        onChange={(event) => setSaid(event.currentTarget.value)}
      />
      <div>
        <p className={classes.label}>{words.feedbackContext}</p>
        <pre className={classes.context}>{context}</pre>
      </div>
      <p className={classes.hint}>{words.nothingSent}</p>
      <Group justify="flex-end">
        <CopyButton value={whole}>
          {({ copied, copy }) => <Button onClick={copy}>{copied ? frame.shared.copied : words.copy}</Button>}
        </CopyButton>
        <Button component="a" href={link} variant="filled">
          {link.startsWith("mailto:") ? words.mail : words.page}
        </Button>
      </Group>
    </Stack>
  );
}
