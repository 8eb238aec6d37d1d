import { Button, Checkbox, Group, Modal, Stack, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, got } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import type { Secret } from "@/components/SecretOnce";
import { otherProblems, problemOf } from "@/model/problem";
import { mailQuery } from "@/pages/settings/queries";
import { text } from "@/text/access";
import { text as frame } from "@/text/frame";
import classes from "./Access.module.css";
import { createRules } from "./NewRules";
import { Problems } from "./parts";
import { useReread } from "./queries";
import { RuleRows } from "./RuleRows";
import { newRow, rulesOf } from "./ruleRows";

interface Props {
  opened: boolean;
  onClose: () => void;
  /** The one-time password is shown by the page, since this dialog closes. */
  onSecret: (secret: Secret) => void;
}

export function NewUser({ opened, onClose, onSecret }: Props) {
  return (
    <Modal opened={opened} onClose={onClose} title={text.users.createTitle} size="lg">
      {opened && <Form onClose={onClose} onSecret={onSecret} />}
    </Modal>
  );
}

export function passwordSecret(email: string, password: string): Secret {
  const { users } = text;
  return {
    title: users.passwordTitle(email),
    hint: users.passwordHint,
    values: [
      { label: users.email, value: email },
      { label: users.password, value: password },
    ],
  };
}

function Form({ onClose, onSecret }: Omit<Props, "opened">) {
  const [email, setEmail] = useState("");
  const [notify, setNotify] = useState(false);
  const [rows, setRows] = useState(() => [newRow()]);
  const [error, setError] = useState<unknown>(null);
  const [made, setMade] = useState<string | null>(null);
  const [refusedRules, setRefusedRules] = useState<string[]>([]);
  const [isBusy, setBusy] = useState(false);
  const mail = useQuery(mailQuery).data;
  const isHeld = useWritesHeld();
  const reread = useReread();

  /** The user first, then the roles: one that is refused does not take the user away again. */
  const create = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const rules = rulesOf([{ subjectId: email.trim(), subjectType: "user" }], rows);
      let password: string | null = null;
      if (made === null) {
        const user = await got(
          api.POST("/api/v1/users", { body: { email: email.trim(), needToChangePassword: true, notify } }),
        );
        setMade(user.id);
        password = user.tempPassword ?? null;
        done(text.users.createdNow(user.email));
      }
      const { failed } = rules.length > 0 ? await createRules(rules) : { failed: [] };
      setRefusedRules(failed);
      void reread();
      if (password !== null) onSecret(passwordSecret(email.trim(), password));
      if (failed.length === 0) onClose();
    } catch (caught) {
      setError(caught);
    } finally {
      setBusy(false);
    }
  };

  return (
    <form onSubmit={(event) => void create(event)}>
      <Stack gap="sm">
        <TextInput
          label={text.users.email}
          description={text.users.emailHint}
          type="email"
          required
          data-autofocus
          disabled={made !== null}
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
          error={problemOf(error, "email")}
        />
        <Checkbox
          label={text.users.mail}
          description={mail === null ? text.users.mailOff : undefined}
          disabled={mail == null || made !== null}
          checked={notify}
          onChange={(event) => setNotify(event.currentTarget.checked)}
        />
        <div>
          <strong>{text.users.rolesTitle}</strong>
          <p className={classes.dim}>{text.users.rolesHint}</p>
        </div>
        <RuleRows rows={rows} onChange={setRows} />
        <Problems of={[...otherProblems(error, ["email"]), ...refusedRules]} />
        <Group justify="flex-end">
          <Button onClick={onClose}>{frame.shared.cancel}</Button>
          <Button type="submit" variant="filled" loading={isBusy} disabled={isHeld}>
            {frame.shared.create}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
