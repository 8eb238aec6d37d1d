import { Button, Group, NumberInput, PasswordInput, Select, Stack, Textarea, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useMay, useMe } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import { Card } from "@/components/Card";
import { Moment } from "@/components/Moment";
import { Notice } from "@/components/Notice";
import { useRemoval } from "@/components/removal";
import { Empty, Loaded } from "@/components/states";
import { otherProblems, problemOf } from "@/model/problem";
import { text as frame } from "@/text/frame";
import { text } from "@/text/settings";
import { mailQuery } from "./queries";
import classes from "./Settings.module.css";

type Mail = Schema<"MailSettings">;
const { mail: words } = text;

export function MailServer() {
  const query = useQuery(mailQuery);
  const [isEditing, setEditing] = useState(false);
  const removal = useRemoval(["settings"]);
  const mayWrite = useMay("setting.write");
  const isHeld = useWritesHeld();
  const mail = removal.isHidden("mail") ? null : query.data;
  const actions = mail && mayWrite && !isEditing && (
    <>
      <Button size="xs" disabled={isHeld} onClick={() => setEditing(true)}>
        {words.edit}
      </Button>
      <Button
        size="xs"
        color="red"
        disabled={isHeld}
        onClick={() => removal.remove(["mail"], words.willRemove, () => got(api.DELETE("/api/v1/mail/settings")))}
      >
        {words.remove}
      </Button>
    </>
  );
  return (
    <Card title={words.title} aside={actions || undefined}>
      <Loaded query={query} rows={4}>
        {() =>
          isEditing ? (
            <MailForm of={mail ?? null} onClose={() => setEditing(false)} />
          ) : mail == null ? (
            <Empty
              title={words.none}
              action={
                mayWrite && (
                  <Button disabled={isHeld} onClick={() => setEditing(true)}>
                    {words.setUp}
                  </Button>
                )
              }
            />
          ) : (
            <>
              <MailFacts of={mail} />
              {mayWrite && <TestMessage />}
            </>
          )
        }
      </Loaded>
    </Card>
  );
}

function Fact({ label, children }: { label: string; children: ReactNode }) {
  return (
    <div className={classes.fact}>
      <dt>{label}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function MailFacts({ of }: { of: Mail }) {
  return (
    <dl className={classes.facts}>
      <Fact label={words.host}>{`${of.host}:${of.port}`}</Fact>
      <Fact label={words.security}>{words.securities[of.security]}</Fact>
      <Fact label={words.from}>{of.from}</Fact>
      <Fact label={words.username}>{of.username || text.none}</Fact>
      <Fact label={words.password}>{of.hasPassword ? words.passwordStored : words.passwordNone}</Fact>
      <Fact label={words.caFact}>{of.caCertificate ? words.caGiven : words.caNone}</Fact>
      <Fact label={words.lastChange}>
        <Moment at={of.updatedAt} /> {of.updatedBy}
      </Fact>
    </dl>
  );
}

function MailForm({ of, onClose }: { of: Mail | null; onClose: () => void }) {
  const queries = useQueryClient();
  const [host, setHost] = useState(of?.host ?? "");
  const [port, setPort] = useState<string | number>(of?.port ?? 587);
  const [security, setSecurity] = useState<Schema<"MailSecurity">>(of?.security ?? "starttls");
  const [from, setFrom] = useState(of?.from ?? "");
  const [username, setUsername] = useState(of?.username ?? "");
  const [password, setPassword] = useState("");
  const [caCertificate, setCa] = useState(of?.caCertificate ?? "");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const kept = of?.hasPassword && password === "" ? {} : { password };
    const body = {
      host: host.trim(),
      port: Number(port),
      security,
      from: from.trim(),
      username,
      caCertificate,
      ...kept,
    };
    try {
      await got(api.PUT("/api/v1/mail/settings", { body }));
      done(words.saved);
      await queries.invalidateQueries({ queryKey: ["settings"] });
      onClose();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void save(event)}>
      <Stack gap="sm" maw={520}>
        <TextInput
          label={words.host}
          required
          value={host}
          onChange={(event) => setHost(event.currentTarget.value)}
          error={problemOf(error, "host")}
        />
        <Group grow align="flex-start">
          <NumberInput
            label={words.port}
            min={1}
            max={65535}
            value={port}
            onChange={setPort}
            error={problemOf(error, "port")}
          />
          <Select
            label={words.security}
            allowDeselect={false}
            data={Object.entries(words.securities).map(([value, label]) => ({ value, label }))}
            value={security}
            onChange={(next) => setSecurity(next as Schema<"MailSecurity">)}
            error={problemOf(error, "security")}
          />
        </Group>
        <TextInput
          label={words.from}
          type="email"
          required
          value={from}
          onChange={(event) => setFrom(event.currentTarget.value)}
          error={problemOf(error, "from")}
        />
        <TextInput
          label={words.username}
          autoComplete="off"
          value={username}
          onChange={(event) => setUsername(event.currentTarget.value)}
          error={problemOf(error, "username")}
        />
        <PasswordInput
          label={words.password}
          description={of?.hasPassword ? words.passwordKept : undefined}
          autoComplete="new-password"
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
          error={problemOf(error, "password")}
        />
        <Textarea
          size="sm"
          label={words.ca}
          autosize
          minRows={2}
          maxRows={8}
          value={caCertificate}
          onChange={(event) => setCa(event.currentTarget.value)}
          error={problemOf(error, "caCertificate")}
        />
        {otherProblems(error, ["host", "port", "security", "from", "username", "password", "caCertificate"]).map(
          (each) => (
            <Notice key={each} tone="bad" title={each} />
          ),
        )}
        <Group>
          <Button type="submit" variant="filled" loading={isBusy}>
            {words.save}
          </Button>
          <Button onClick={onClose}>{frame.shared.cancel}</Button>
        </Group>
      </Stack>
    </form>
  );
}

function TestMessage() {
  const me = useMe();
  const [to, setTo] = useState(me?.username ?? "");
  const [result, setResult] = useState<{ isGood: boolean; words: string[] } | null>(null);
  const [isBusy, setBusy] = useState(false);
  const send = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      const answer = await got(api.POST("/api/v1/mail/test", { body: { to: to.trim() } }));
      setResult({ isGood: true, words: [words.testSent(answer.to)] });
    } catch (error) {
      setResult({ isGood: false, words: otherProblems(error, []) });
    } finally {
      setBusy(false);
    }
  };
  return (
    <Stack gap="sm" mt="md">
      <form onSubmit={(event) => void send(event)}>
        <Group align="flex-end">
          <TextInput
            label={words.testTo}
            type="email"
            required
            value={to}
            onChange={(event) => setTo(event.currentTarget.value)}
          />
          <Button type="submit" loading={isBusy}>
            {words.test}
          </Button>
        </Group>
      </form>
      {result && (
        <Notice tone={result.isGood ? "good" : "bad"} title={result.words.join(" ")} onClose={() => setResult(null)} />
      )}
    </Stack>
  );
}
