import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { Schema } from "@/api/client";
import { useMay, useMe } from "@/api/queries";
import { useAddressTab } from "@/components/addressTab";
import { Card } from "@/components/Card";
import { useCurrentInView } from "@/components/inView";
import { NotOpen } from "@/components/NotOpen";
import { Page } from "@/components/Page";
import { Loaded } from "@/components/states";
import { text } from "@/text/settings";
import { Delivery } from "./Delivery";
import { MailServer } from "./MailServer";
import { settingsQuery } from "./queries";
import { ResearcherAuthentication } from "./Researcher";
import { SettingRow } from "./SettingRow";
import classes from "./Settings.module.css";
import { TokenKeys } from "./TokenKeys";
import { SECTIONS, type Section, sectionOf } from "./words";

const RELATED: Partial<Record<Section, { to: string; search?: object; label: string; hint: string }[]>> = {
  analytics: [
    { to: "/consumption", label: text.analytics.prices, hint: text.analytics.pricesHint },
    { to: "/reports", label: text.analytics.reports, hint: text.analytics.reportsHint },
    { to: "/analytics", label: text.analytics.analytics, hint: text.analytics.analyticsHint },
  ],
  resources: [
    { to: "/projects", label: text.resources.quota, hint: text.resources.quotaHint },
    { to: "/departments", label: text.resources.departments, hint: text.resources.departmentsHint },
    { to: "/node-pools", label: text.resources.pools, hint: text.resources.poolsHint },
  ],
  workloads: [
    { to: "/policies", label: text.workloads.policies, hint: text.workloads.policiesHint },
    { to: "/assets", label: text.workloads.assets, hint: text.workloads.assetsHint },
  ],
};

export function SettingsPage() {
  const [current = "general"] = useAddressTab("section", SECTIONS);
  const row = useCurrentInView<HTMLElement>(current);
  const mayRead = useMay("setting.read");
  const query = useQuery({ ...settingsQuery, enabled: mayRead });
  if (useMe() !== undefined && !mayRead) return <NotOpen title={text.title} />;
  return (
    <Page title={text.title} lead={text.lead} tab={`${text.title}: ${text.sections[current]}`}>
      <div className={classes.layout}>
        <nav ref={row} className={classes.nav} aria-label={text.sectionNav}>
          {SECTIONS.map((each) => (
            <Link
              key={each}
              to="/settings"
              search={{ section: each } as never}
              aria-current={each === current ? "page" : undefined}
            >
              {text.sections[each]}
            </Link>
          ))}
        </nav>
        <div className={classes.parts}>
          <Loaded query={query} rows={10}>
            {(all) => <Part section={current} settings={all} />}
          </Loaded>
        </div>
      </div>
    </Page>
  );
}

function Part({ section, settings }: { section: Section; settings: readonly Schema<"Setting">[] }) {
  const own = settings.filter((each) => sectionOf(each) === section);
  const related = RELATED[section];
  return (
    <>
      {section === "general" && <ResearcherAuthentication />}
      {section === "notifications" && <Delivery settings={settings} />}
      {own.length > 0 && (
        <Card title={text.sections[section]} flush>
          <ul className={classes.list}>
            {own.map((each) => (
              <SettingRow key={each.key} setting={each} />
            ))}
          </ul>
        </Card>
      )}
      {section === "security" && <TokenKeys />}
      {section === "notifications" && <MailServer />}
      {related && (
        <Card
          title={own.length > 0 ? text.related : text.analytics.title}
          note={own.length > 0 ? undefined : text.analytics.hint}
        >
          <ul className={classes.links}>
            {related.map((each) => (
              <li key={each.to}>
                <Link to={each.to as never}>{each.label}</Link>
                <span>{each.hint}</span>
              </li>
            ))}
          </ul>
        </Card>
      )}
    </>
  );
}
