import { Button, Group, Modal, Select, Stack, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, got } from "@/api/client";
import { done } from "@/components/answers";
import { otherProblems, problemOf } from "@/model/problem";
import { text } from "@/text/access";
import classes from "./Access.module.css";
import { Problems } from "./parts";
import { userSearchQuery } from "./queries";

const { providers: words } = text;

/** Which account of a provider signs in as which user. */
export function ProviderLinks({ alias, onClose }: { alias: string | null; onClose: () => void }) {
  return (
    <Modal opened={alias !== null} onClose={onClose} title={words.linksTitle(alias ?? "")}>
      {alias !== null && <Form alias={alias} />}
    </Modal>
  );
}

function Form({ alias }: { alias: string }) {
  const [search, setSearch] = useState("");
  const [user, setUser] = useState<string | null>(null);
  const [subject, setSubject] = useState("");
  const [error, setError] = useState<unknown>(null);
  const users = useQuery(userSearchQuery(search)).data ?? [];
  const send = async (act: () => Promise<unknown>, message: string) => {
    setError(null);
    try {
      await act();
      done(message);
      setSubject("");
    } catch (caught) {
      setError(caught);
    }
  };
  const link = () =>
    got(
      api.POST("/api/v1/idps/{idp}/links", {
        params: { path: { idp: alias } },
        body: { user: user ?? "", subject: subject.trim() },
      }),
    );
  const unlink = () =>
    got(api.DELETE("/api/v1/idps/{idp}/links/{user_id}", { params: { path: { idp: alias, user_id: user ?? "" } } }));
  return (
    <Stack gap="sm">
      <p className={classes.dim}>{words.linksHint}</p>
      <Select
        label={words.linkUser}
        searchable
        searchValue={search}
        onSearchChange={setSearch}
        data={users.map((each) => ({ value: each.id, label: each.email }))}
        value={user}
        onChange={setUser}
        error={problemOf(error, "user")}
      />
      <TextInput
        label={words.linkSubject}
        value={subject}
        onChange={(event) => setSubject(event.currentTarget.value)}
        error={problemOf(error, "subject")}
      />
      <Problems of={otherProblems(error, ["user", "subject"])} />
      <Group justify="space-between">
        <Button disabled={user === null} onClick={() => void send(unlink, words.unlinked)} title={words.unlinkHint}>
          {words.unlink}
        </Button>
        <Button
          variant="filled"
          disabled={user === null || subject.trim() === ""}
          onClick={() => void send(link, words.linked)}
        >
          {words.link}
        </Button>
      </Group>
    </Stack>
  );
}
