import { Tabs } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { meQuery } from "@/api/queries";
import { useAddressTab } from "@/components/addressTab";
import { done } from "@/components/answers";
import { Card } from "@/components/Card";
import { useCurrentInView } from "@/components/inView";
import { Page } from "@/components/Page";
import { Loaded } from "@/components/states";
import { text } from "@/text/profile";
import { KeysTab } from "./KeysTab";
import { MeTab } from "./MeTab";
import { NotificationsTab } from "./NotificationsTab";
import { PasswordForm } from "./PasswordForm";
import { PreferencesTab } from "./PreferencesTab";
import classes from "./Profile.module.css";
import { SessionsTab } from "./SessionsTab";

const TABS = ["me", "password", "sessions", "keys", "notifications", "preferences"] as const;
type Name = (typeof TABS)[number];

export function ProfilePage() {
  const query = useQuery(meQuery);
  const [tab = "me", setTab] = useAddressTab("tab", TABS);
  const row = useCurrentInView<HTMLDivElement>(tab);
  return (
    <Page title={text.title} lead={text.lead(query.data?.username ?? "…")}>
      <Tabs value={tab} onChange={(next) => next && setTab(next as Name)} keepMounted={false}>
        <Tabs.List ref={row} style={{ flexWrap: "nowrap", overflowX: "auto" }}>
          {TABS.map((each) => (
            <Tabs.Tab key={each} value={each}>
              {text.tabs[each]}
            </Tabs.Tab>
          ))}
        </Tabs.List>
      </Tabs>
      <Loaded query={query} rows={6}>
        {(me) => <Part key={tab} tab={tab} me={me} />}
      </Loaded>
    </Page>
  );
}

function Part({ tab, me }: { tab: Name; me: Schema<"Me"> }) {
  switch (tab) {
    case "me":
      return <MeTab me={me} />;
    case "password":
      return <PasswordTab me={me} />;
    case "sessions":
      return <SessionsTab />;
    case "keys":
      return <KeysTab />;
    case "notifications":
      return <NotificationsTab />;
    case "preferences":
      return <PreferencesTab />;
  }
}

function PasswordTab({ me }: { me: Schema<"Me"> }) {
  const queries = useQueryClient();
  return (
    <Card title={text.password.title} note={text.password.ends}>
      <div className={classes.narrow}>
        {!me.hasPassword && <p className={classes.hint}>{text.password.directory}</p>}
        <PasswordForm
          hasPassword={me.hasPassword ?? true}
          onDone={() => {
            done(text.password.changed);
            void queries.invalidateQueries({ queryKey: ["me"] });
          }}
        />
      </div>
    </Card>
  );
}
