import { Button, Tabs } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { useMe } from "@/api/queries";
import { useAddressTab } from "@/components/addressTab";
import { useCurrentInView } from "@/components/inView";
import { Page } from "@/components/Page";
import { Empty, Loading } from "@/components/states";
import { text } from "@/text/access";
import classes from "./Access.module.css";
import { GroupsTab } from "./GroupsTab";
import { KeysTab } from "./KeysTab";
import { ProgramsTab } from "./ProgramsTab";
import { ProvidersTab } from "./ProvidersTab";
import { QuestionBox } from "./Question";
import { RolesTab } from "./RolesTab";
import { RulesTab } from "./RulesTab";
import { SessionsTab } from "./SessionsTab";
import { UsersTab } from "./UsersTab";

type Name = keyof typeof text.tabs;

/** Each part, with the permission that it needs. */
const PARTS: { name: Name; permission: string; part: ComponentType }[] = [
  { name: "users", permission: "user.read", part: UsersTab },
  { name: "groups", permission: "access-rule.read", part: GroupsTab },
  { name: "rules", permission: "access-rule.read", part: RulesTab },
  { name: "applications", permission: "application.read", part: () => <ProgramsTab kind="app" /> },
  { name: "serviceAccounts", permission: "service-account.read", part: () => <ProgramsTab kind="service-account" /> },
  { name: "roles", permission: "access-rule.read", part: RolesTab },
  { name: "sessions", permission: "access.read", part: SessionsTab },
  { name: "accessKeys", permission: "access.read", part: KeysTab },
  { name: "providers", permission: "access.read", part: ProvidersTab },
];

export function AccessPage() {
  const me = useMe();
  const permissions = me?.permissions ?? [];
  const parts = PARTS.filter((each) => permissions.includes(each.permission));
  const [tab, setTab] = useAddressTab(
    "tab",
    parts.map((each) => each.name),
  );
  const row = useCurrentInView<HTMLDivElement>(tab);
  const Part = parts.find((each) => each.name === tab)?.part;
  return (
    <Page title={text.title} lead={text.lead}>
      {me === undefined ? (
        <Loading rows={8} />
      ) : Part === undefined ? (
        <Empty
          title={text.nothing}
          hint={text.nothingHint}
          action={
            <Button component={Link} to="/profile">
              {text.toProfile}
            </Button>
          }
        />
      ) : (
        <>
          {permissions.includes("access-rule.read") && permissions.includes("user.read") && <QuestionBox />}
          <Tabs value={tab ?? null} onChange={(next) => next && setTab(next as Name)} keepMounted={false}>
            <Tabs.List ref={row} className={classes.tabs} style={{ flexWrap: "nowrap" }}>
              {parts.map((each) => (
                <Tabs.Tab key={each.name} value={each.name}>
                  {text.tabs[each.name]}
                </Tabs.Tab>
              ))}
            </Tabs.List>
          </Tabs>
          <Part key={tab} />
        </>
      )}
    </Page>
  );
}
