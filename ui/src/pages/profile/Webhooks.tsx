import { ActionIcon, Button, Group, Modal, Stack, TextInput } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { Card } from "@/components/Card";
import { Moment } from "@/components/Moment";
import { useRemoval } from "@/components/removal";
import { type Secret, SecretOnce } from "@/components/SecretOnce";
import { Empty } from "@/components/states";
import { otherProblems, problemOf } from "@/model/problem";
import { Problems } from "@/pages/access/parts";
import { text as frame } from "@/text/frame";
import { text } from "@/text/profile";
import classes from "./Profile.module.css";

const { notifications: words } = text;
const KEY = ["me", "notifications"] as const;

export function Webhooks({ webhooks }: { webhooks: readonly Schema<"Webhook">[] }) {
  const queries = useQueryClient();
  const [isNew, setNew] = useState(false);
  const [secret, setSecret] = useState<Secret | null>(null);
  const isHeld = useWritesHeld();
  const removal = useRemoval(KEY);
  const shown = webhooks.filter((each) => !removal.isHidden(each.name));
  const add = (
    <Button size="xs" disabled={isHeld} onClick={() => setNew(true)}>
      {words.addWebhook}
    </Button>
  );
  return (
    <Card title={words.webhooks} note={words.webhooksHint} aside={shown.length > 0 ? add : undefined}>
      {shown.length === 0 ? (
        <Empty title={words.noWebhooks} action={add} />
      ) : (
        <ul className={classes.roles}>
          {shown.map((each) => (
            <li key={each.name} className={classes.row}>
              <span className={classes.grow}>
                <strong>{each.name}</strong> <span className={classes.hint}>{each.url}</span>{" "}
                <span className={classes.hint}>
                  {words.created} <Moment at={each.createdAt} />
                </span>
              </span>
              <ActionIcon
                variant="subtle"
                color="gray"
                disabled={isHeld}
                aria-label={words.deleteOf(each.name)}
                onClick={() =>
                  removal.remove([each.name], words.willDelete(each.name), () =>
                    got(api.DELETE("/api/v1/notification-webhooks/{name}", { params: { path: { name: each.name } } })),
                  )
                }
              >
                <IconTrash size={16} />
              </ActionIcon>
            </li>
          ))}
        </ul>
      )}
      <Modal opened={isNew} onClose={() => setNew(false)} title={words.addWebhook}>
        {isNew && (
          <NewWebhook
            onClose={() => setNew(false)}
            onMade={({ name, secret: value }) => {
              setNew(false);
              const values = [{ label: words.secret, value: value ?? "" }];
              setSecret({ title: words.secretTitle(name), hint: words.secretHint, values });
              void queries.invalidateQueries({ queryKey: KEY });
            }}
          />
        )}
      </Modal>
      <SecretOnce secret={secret} onClose={() => setSecret(null)} />
    </Card>
  );
}

function NewWebhook({ onClose, onMade }: { onClose: () => void; onMade: (made: Schema<"NewWebhook">) => void }) {
  const [name, setName] = useState("");
  const [url, setUrl] = useState("https://");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const add = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      onMade(await got(api.POST("/api/v1/notification-webhooks", { body: { name: name.trim(), url: url.trim() } })));
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void add(event)}>
      <Stack gap="sm">
        <TextInput
          label={words.name}
          required
          data-autofocus
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={problemOf(error, "name")}
        />
        <TextInput
          label={words.url}
          description={words.urlHint}
          type="url"
          required
          value={url}
          onChange={(event) => setUrl(event.currentTarget.value)}
          error={problemOf(error, "url")}
        />
        <Problems of={otherProblems(error, ["name", "url"])} />
        <Group justify="flex-end">
          <Button onClick={onClose}>{frame.shared.cancel}</Button>
          <Button type="submit" variant="filled" loading={isBusy}>
            {words.add}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
