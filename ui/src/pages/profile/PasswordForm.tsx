import { Button, Group, PasswordInput, Stack } from "@mantine/core";
import { type FormEvent, type ReactNode, useState } from "react";
import { ApiError } from "@/api/client";
import { sentence } from "@/model/problem";
import { text } from "@/text/password";
import classes from "./PasswordForm.module.css";

const PATH = "/api/v1/me/password";

/**
 * Not through the client: it holds changes back while no stream of changes is heard, and before the first password is
 * changed there is none.
 */
async function changePassword(currentPassword: string, newPassword: string): Promise<void> {
  let response: Response;
  try {
    response = await fetch(PATH, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        "X-Fairpool-Request": "1",
        "Idempotency-Key": crypto.randomUUID(),
      },
      body: JSON.stringify({ currentPassword, newPassword }),
    });
  } catch {
    throw new ApiError(0, { detail: text.unreachable }, null);
  }
  if (!response.ok) {
    const document = (await response.json().catch(() => ({}))) as object;
    throw new ApiError(response.status, document, response.headers.get("x-request-id"));
  }
}

interface Props {
  /** Whether there is one to be typed. */
  hasPassword: boolean;
  onDone: () => void;
  /** Beside the button. */
  aside?: ReactNode;
}

export function PasswordForm({ hasPassword, onDone, aside }: Props) {
  const [current, setCurrent] = useState("");
  const [fresh, setFresh] = useState("");
  const [again, setAgain] = useState("");
  const [error, setError] = useState<ApiError | null>(null);
  const [isTried, setTried] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const ofCurrent = error?.problems.filter((each) => each.field === "currentPassword") ?? [];
  const ofFresh = error?.problems.filter((each) => each.field !== "currentPassword") ?? [];
  const missing = (value: string) => (isTried && value === "" ? text.missing : null);
  const isSame = hasPassword && fresh !== "" && fresh === current;
  const differs = again !== fresh && (isTried || again.length >= fresh.length) && again !== "";

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if ((hasPassword && current === "") || fresh === "" || again !== fresh || isSame) return;
    setBusy(true);
    try {
      await changePassword(current, fresh);
      setError(null);
      setCurrent("");
      setFresh("");
      setAgain("");
      setTried(false);
      onDone();
    } catch (caught) {
      setError(caught instanceof ApiError ? caught : new ApiError(0, { detail: String(caught) }, null));
    } finally {
      setBusy(false);
    }
  };

  return (
    <form onSubmit={(event) => void submit(event)}>
      <Stack gap="sm">
        {hasPassword && (
          <PasswordInput
            label={text.current}
            description={text.currentHint}
            autoComplete="current-password"
            value={current}
            onChange={(event) => setCurrent(event.currentTarget.value)}
            error={ofCurrent.map(sentence).join(". ") || missing(current)}
            data-autofocus
          />
        )}
        <PasswordInput
          label={text.fresh}
          description={text.rules}
          autoComplete="new-password"
          value={fresh}
          onChange={(event) => {
            setFresh(event.currentTarget.value);
            setError(null);
          }}
          error={isSame ? text.same : missing(fresh)}
        />
        {error !== null && ofFresh.length + ofCurrent.length === 0 && (
          <p role="alert" className={classes.problem}>
            {error.message}
          </p>
        )}
        {ofFresh.length > 0 && (
          <ul role="alert" className={classes.problems}>
            {ofFresh.map((each) => (
              <li key={each.code}>{sentence(each)}</li>
            ))}
          </ul>
        )}
        <PasswordInput
          label={text.again}
          autoComplete="new-password"
          value={again}
          onChange={(event) => setAgain(event.currentTarget.value)}
          error={differs ? text.differ : missing(again)}
        />
        <Group justify="space-between">
          <Button type="submit" variant="filled" loading={isBusy}>
            {hasPassword ? text.change : text.set}
          </Button>
          {aside}
        </Group>
      </Stack>
    </form>
  );
}
