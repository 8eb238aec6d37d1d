import { Button } from "@mantine/core";
import { IconAlertTriangle, IconCheck } from "@tabler/icons-react";
import { useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { refused } from "@/components/answers";
import { Card } from "@/components/Card";
import { CopyIcon } from "@/components/CopyText";
import { Notice } from "@/components/Notice";
import type { Removal } from "@/components/removal";
import { sentence } from "@/model/problem";
import { text } from "@/text/access";
import classes from "./Access.module.css";

type Provider = Schema<"IdentityProvider">;
const { providers: words } = text;

interface Props {
  provider: Provider;
  removal: Removal;
  onEdit: () => void;
  onLinks: () => void;
}

/** One provider: what it was told, what must be told to it, and whether it works. */
export function ProviderCard({ provider, removal, onEdit, onLinks }: Props) {
  const [test, setTest] = useState<Schema<"ProviderTest"> | null>(null);
  const [isBusy, setBusy] = useState(false);
  const mayWrite = useMay("access.write");
  const isHeld = useWritesHeld();
  const path = { idp: provider.alias };
  const check = async () => {
    setBusy(true);
    try {
      setTest(await got(api.POST("/api/v1/idps/{idp}/test", { params: { path } })));
    } catch (error) {
      refused(error);
    } finally {
      setBusy(false);
    }
  };
  const remove = () =>
    removal.remove([provider.alias], words.willDelete(provider.alias), () =>
      got(api.DELETE("/api/v1/idps/{idp}", { params: { path } })),
    );
  return (
    <Card
      title={provider.alias}
      note={words.types[provider.type]}
      aside={
        mayWrite && (
          <>
            <Button size="xs" loading={isBusy} disabled={isHeld} onClick={() => void check()}>
              {words.test}
            </Button>
            <Button size="xs" disabled={isHeld} onClick={onEdit}>
              {words.edit}
            </Button>
            <Button size="xs" disabled={isHeld} onClick={onLinks}>
              {words.links}
            </Button>
            <Button size="xs" color="red" disabled={isHeld} onClick={remove}>
              {words.delete}
            </Button>
          </>
        )
      }
    >
      {test && <TestResult test={test} onClose={() => setTest(null)} />}
      <Addresses provider={provider} />
    </Card>
  );
}

function TestResult({ test, onClose }: { test: Schema<"ProviderTest">; onClose: () => void }) {
  return (
    <Notice tone={test.works ? "good" : "bad"} title={test.works ? words.works : words.worksNot} onClose={onClose}>
      <ul className={classes.list}>
        {test.checks.map((each) => (
          <li key={each.what}>
            {each.problem ? (
              <IconAlertTriangle size={14} aria-label={words.worksNot} />
            ) : (
              <IconCheck size={14} aria-label={words.works} />
            )}{" "}
            {each.what}
            {each.problem && `. ${sentence({ what: each.problem, fix: each.fix ?? null })}`}
          </li>
        ))}
      </ul>
    </Notice>
  );
}

function Addresses({ provider }: { provider: Provider }) {
  const { oidcData: oidc, samlData: saml, mappers } = provider;
  const atProvider: [string, string][] = saml
    ? [
        [words.acs, provider.redirectUri],
        [words.spMetadata, saml.serviceProviderMetadataUrl],
        [words.entityId, saml.entityId],
      ]
    : [
        [words.redirectUri, provider.redirectUri],
        [words.logoutUri, oidc?.logoutUri ?? ""],
      ];
  const facts: [string, string][] = saml
    ? [
        [words.issuer, saml.issuer],
        [words.signOn, saml.singleSignOnServiceUrl],
        [words.metadataUrlLabel, saml.metadataXmlUrl ?? saml.fileName ?? ""],
      ]
    : [
        [words.discovery, oidc?.discoverDocumentUrl ?? ""],
        [words.clientId, oidc?.clientId ?? ""],
        [words.scopes, (oidc?.scopes ?? []).join(" ")],
      ];
  const names = Object.entries(mappers).map(
    ([key, name]) => `${words.mapper[key as keyof typeof words.mapper]}: ${name}`,
  );
  return (
    <div className={classes.row} style={{ alignItems: "flex-start", marginTop: 8 }}>
      <FactList title={words.atProvider} facts={atProvider} copies />
      <FactList facts={[...facts, [saml ? words.mappersSaml : words.mappers, names.join(", ")]]} />
    </div>
  );
}

function FactList({ title, facts, copies = false }: { title?: string; facts: [string, string][]; copies?: boolean }) {
  return (
    <div className={classes.grow} style={{ flexBasis: 320 }}>
      {title !== undefined && <strong>{title}</strong>}
      <dl className={classes.addresses}>
        {facts
          .filter(([, value]) => value !== "")
          .map(([label, value]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>
                {value}
                {copies && <CopyIcon value={value} label={label} />}
              </dd>
            </div>
          ))}
      </dl>
    </div>
  );
}
