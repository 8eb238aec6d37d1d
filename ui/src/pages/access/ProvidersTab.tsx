import { Button, Select } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { useRemoval } from "@/components/removal";
import { Empty, Loaded } from "@/components/states";
import { autoRedirectQuery } from "@/pages/settings/queries";
import { text } from "@/text/access";
import classes from "./Access.module.css";
import { ProviderCard } from "./ProviderCard";
import { ProviderForm } from "./ProviderForm";
import { ProviderLinks } from "./ProviderLinks";

type Provider = Schema<"IdentityProvider">;
const { providers: words } = text;

export const providersQuery = {
  queryKey: ["access", "providers"],
  queryFn: () => got(api.GET("/api/v1/idps")) as Promise<Provider[]>,
  staleTime: 0,
};

export function ProvidersTab() {
  const query = useQuery(providersQuery);
  const removal = useRemoval(["access", "providers"], ["settings"]);
  const [edited, setEdited] = useState<Provider | null | undefined>(undefined);
  const [linked, setLinked] = useState<string | null>(null);
  const mayWrite = useMay("access.write");
  const isHeld = useWritesHeld();
  const add = mayWrite && (
    <Button leftSection={<IconPlus size={16} />} disabled={isHeld} onClick={() => setEdited(null)}>
      {words.new}
    </Button>
  );
  return (
    <>
      <Loaded query={query} rows={4}>
        {(data) => {
          const providers = data.filter((each) => !removal.isHidden(each.alias));
          if (providers.length === 0) return <Empty title={words.empty} hint={<NoneYet />} action={add} />;
          return (
            <>
              <div className={classes.row}>
                <p className={classes.grow}>{words.lead}</p>
                {add}
              </div>
              <RedirectChoice providers={providers} />
              {providers.map((each) => (
                <ProviderCard
                  key={each.alias}
                  provider={each}
                  removal={removal}
                  onEdit={() => setEdited(each)}
                  onLinks={() => setLinked(each.alias)}
                />
              ))}
            </>
          );
        }}
      </Loaded>
      <ProviderForm of={edited} onClose={() => setEdited(undefined)} />
      <ProviderLinks alias={linked} onClose={() => setLinked(null)} />
    </>
  );
}

function NoneYet() {
  return (
    <>
      {words.emptyHint} {words.private}{" "}
      <Link to="/settings" search={{ section: "security" } as never}>
        {words.toSettings}
      </Link>
    </>
  );
}

/** Where the sign-in page leads without asking. */
function RedirectChoice({ providers }: { providers: Provider[] }) {
  const queries = useQueryClient();
  const chosen = useQuery({ ...autoRedirectQuery, enabled: useMay("setting.read") }).data;
  const mayWrite = useMay("setting.write");
  const isHeld = useWritesHeld();
  if (chosen === undefined) return null;
  const choose = async (alias: string) => {
    try {
      const body = alias === "" ? { enabled: false } : { enabled: true, idpAlias: alias };
      await got(api.PUT("/api/v1/security/settings/autoRedirectSSO", { body }));
      done(words.redirectSaved);
    } catch (error) {
      refused(error);
    }
    await queries.invalidateQueries({ queryKey: ["settings"] });
  };
  return (
    <Select
      label={words.redirect}
      description={words.redirectHint}
      maw={420}
      allowDeselect={false}
      disabled={!mayWrite || isHeld}
      data={[{ value: "", label: words.redirectNone }, ...providers.map((each) => each.alias)]}
      value={chosen.enabled ? (chosen.idpAlias ?? "") : ""}
      onChange={(next) => void choose(next ?? "")}
    />
  );
}
