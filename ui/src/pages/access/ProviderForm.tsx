import {
  Button,
  FileButton,
  Group,
  Modal,
  SegmentedControl,
  Stack,
  TagsInput,
  Textarea,
  TextInput,
} from "@mantine/core";
import { type FormEvent, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { done } from "@/components/answers";
import { otherProblems, problemOf } from "@/model/problem";
import { text } from "@/text/access";
import { text as frame } from "@/text/frame";
import classes from "./Access.module.css";
import { Problems } from "./parts";
import { type Fields, fieldsOf, requestOf } from "./providerFields";
import { useReread } from "./queries";

type Provider = Schema<"IdentityProvider">;
const { providers: words } = text;
const MAPPERS = ["email", "groups", "uid", "gid", "supplementaryGroups"] as const;
const SHOWN = [
  "name",
  "oidcData.clientId",
  "oidcData.clientSecret",
  "oidcData.discoverDocumentUrl",
  "samlData.metadataXmlUrl",
  "samlData.metadataXmlFile",
  "samlData.entityId",
];

interface Props {
  /** The one that is changed; null: a new one; undefined: closed. */
  of: Provider | null | undefined;
  onClose: () => void;
}

export function ProviderForm({ of, onClose }: Props) {
  const title = of ? words.editTitle(of.alias) : words.new;
  return (
    <Modal opened={of !== undefined} onClose={onClose} title={title} size="lg">
      {of !== undefined && <Form of={of} onClose={onClose} />}
    </Modal>
  );
}

function Form({ of, onClose }: { of: Provider | null; onClose: () => void }) {
  const [fields, setFields] = useState(() => fieldsOf(of));
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const isHeld = useWritesHeld();
  const reread = useReread();
  const change = (next: Partial<Fields>) => setFields((before) => ({ ...before, ...next }));
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const body = requestOf(fields, of === null);
    try {
      if (of === null) {
        const made = await got(api.POST("/api/v1/idps", { body }));
        done(words.added(made.alias));
      } else {
        await got(api.PUT("/api/v1/idps/{idp}", { params: { path: { idp: of.alias } }, body }));
        done(words.saved(of.alias));
      }
      await reread();
      onClose();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  return (
    <form onSubmit={(event) => void save(event)}>
      <Stack gap="sm">
        {of === null && (
          <>
            <SegmentedControl
              aria-label={words.type}
              value={fields.type}
              onChange={(type) => change({ type: type as Fields["type"] })}
              data={[
                { value: "oidc", label: words.types.oidc! },
                { value: "saml", label: words.types.saml! },
              ]}
            />
            <TextInput
              label={words.name}
              description={words.nameHint}
              required
              data-autofocus
              value={fields.name}
              onChange={(event) => change({ name: event.currentTarget.value })}
              error={problemOf(error, "name")}
            />
          </>
        )}
        {fields.type === "oidc" ? (
          <OidcFields fields={fields} change={change} error={error} isNew={of === null} />
        ) : (
          <SamlFields fields={fields} change={change} error={error} />
        )}
        <strong>{fields.type === "oidc" ? words.mappers : words.mappersSaml}</strong>
        <div className={classes.row}>
          {MAPPERS.map((each) => (
            <TextInput
              key={each}
              className={classes.grow}
              label={words.mapper[each]}
              value={fields.mappers[each]}
              onChange={(event) => change({ mappers: { ...fields.mappers, [each]: event.currentTarget.value } })}
              error={problemOf(error, `mappers.${each}`)}
            />
          ))}
        </div>
        <Problems of={otherProblems(error, [...SHOWN, "mappers"])} />
        <Group justify="flex-end">
          <Button onClick={onClose}>{frame.shared.cancel}</Button>
          <Button type="submit" variant="filled" loading={isBusy} disabled={isHeld}>
            {words.save}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

interface PartProps {
  fields: Fields;
  change: (next: Partial<Fields>) => void;
  error: unknown;
}

function OidcFields({ fields, change, error, isNew }: PartProps & { isNew: boolean }) {
  return (
    <>
      <TextInput
        label={words.discovery}
        description={words.discoveryHint}
        type="url"
        required
        value={fields.discovery}
        onChange={(event) => change({ discovery: event.currentTarget.value })}
        error={problemOf(error, "oidcData.discoverDocumentUrl")}
      />
      <TextInput
        label={words.clientId}
        required
        value={fields.clientId}
        onChange={(event) => change({ clientId: event.currentTarget.value })}
        error={problemOf(error, "oidcData.clientId")}
      />
      <TextInput
        label={words.clientSecret}
        description={isNew ? undefined : words.clientSecretKept}
        type="password"
        autoComplete="off"
        required={isNew}
        value={fields.clientSecret}
        onChange={(event) => change({ clientSecret: event.currentTarget.value })}
        error={problemOf(error, "oidcData.clientSecret")}
      />
      <TagsInput
        size="sm"
        label={words.scopes}
        description={words.scopesHint}
        value={fields.scopes}
        onChange={(scopes) => change({ scopes })}
      />
      <div className={classes.row}>
        <TextInput
          className={classes.grow}
          label={words.mandatoryClaim}
          value={fields.claim}
          onChange={(event) => change({ claim: event.currentTarget.value })}
        />
        <TagsInput
          className={classes.grow}
          size="sm"
          label={words.mandatoryValues}
          value={fields.claimValues}
          onChange={(claimValues) => change({ claimValues })}
        />
      </div>
    </>
  );
}

function SamlFields({ fields, change, error }: PartProps) {
  return (
    <>
      <SegmentedControl
        aria-label={words.metadata}
        value={fields.metadataType}
        onChange={(type) => change({ metadataType: type as "url" | "file" })}
        data={[
          { value: "url", label: words.metadataUrl },
          { value: "file", label: words.metadataFile },
        ]}
      />
      {fields.metadataType === "url" ? (
        <TextInput
          label={words.metadataUrlLabel}
          type="url"
          required
          value={fields.metadataUrl}
          onChange={(event) => change({ metadataUrl: event.currentTarget.value })}
          error={problemOf(error, "samlData.metadataXmlUrl")}
        />
      ) : (
        <>
          <Textarea
            size="sm"
            label={words.metadataFileLabel}
            description={words.metadataFileHint}
            minRows={4}
            maxRows={10}
            autosize
            value={fields.metadataFile}
            onChange={(event) => change({ metadataFile: event.currentTarget.value })}
            error={problemOf(error, "samlData.metadataXmlFile")}
          />
          <div>
            <FileButton
              accept=".xml,text/xml,application/xml"
              onChange={(file) =>
                void file?.text().then((metadataFile) => change({ metadataFile, fileName: file.name }))
              }
            >
              {(props) => (
                <Button size="xs" {...props}>
                  {words.chooseFile}
                </Button>
              )}
            </FileButton>
          </div>
        </>
      )}
      <TextInput
        label={words.entityId}
        description={words.entityIdHint}
        value={fields.entityId}
        onChange={(event) => change({ entityId: event.currentTarget.value })}
        error={problemOf(error, "samlData.entityId")}
      />
    </>
  );
}
