import { useQuery } from "@tanstack/react-query";
import { call } from "@/api/client";
import { clustersQuery } from "@/api/queries";
import { Card } from "@/components/Card";
import { CodeBlock } from "@/components/CopyText";
import { Loaded } from "@/components/states";
import { text } from "@/text/settings";
import classes from "./Settings.module.css";

const { researcher: words } = text;
const DISCOVERY = "/.well-known/openid-configuration";

interface Facts {
  issuer: string;
  jwks_uri: string;
  id_token_signing_alg_values_supported?: string[];
}

/** What commands and other programs need to know to sign in here, and to check our tokens. */
export function ResearcherAuthentication() {
  const query = useQuery({ queryKey: ["settings", "discovery"], queryFn: () => call<Facts>("GET", DISCOVERY) });
  const clusters = useQuery(clustersQuery);
  return (
    <Card title={words.title}>
      <p className={classes.hint}>{words.hint}</p>
      <Loaded query={query} height={120}>
        {(facts) => (
          <div className={classes.code}>
            <div>
              <h3>{words.client}</h3>
              <p className={classes.hint}>{words.clientHint}</p>
              <CodeBlock label={words.client}>{words.clientText(location.origin)}</CodeBlock>
            </div>
            <div>
              <h3>{words.server}</h3>
              <p className={classes.hint}>{words.serverHint}</p>
              <CodeBlock label={words.server}>
                {words.serverText({
                  issuer: facts.issuer,
                  keys: facts.jwks_uri,
                  discovery: `${facts.issuer}${DISCOVERY}`,
                  algorithm: (facts.id_token_signing_alg_values_supported ?? []).join(", "),
                })}
              </CodeBlock>
            </div>
            <div>
              <h3>{words.apiServer}</h3>
              <p className={classes.hint}>{words.apiServerHint}</p>
              <Loaded query={clusters} height={120}>
                {(found) => found.map((each) => <ApiServerFlags key={each.uuid} cluster={each} facts={facts} />)}
              </Loaded>
            </div>
          </div>
        )}
      </Loaded>
      <p className={classes.hint}>{words.note}</p>
    </Card>
  );
}

function ApiServerFlags({ cluster, facts }: { cluster: { uuid: string; name: string }; facts: Facts }) {
  const algorithms = (facts.id_token_signing_alg_values_supported ?? []).join(",");
  const label = words.apiServerOf(cluster.name);
  return (
    <>
      <p className={classes.hint}>{label}</p>
      <CodeBlock label={label}>{words.apiServerText(facts.issuer, algorithms, cluster.uuid)}</CodeBlock>
    </>
  );
}
