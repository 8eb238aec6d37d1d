import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, got, type Schema } from "@/api/client";
import { Card } from "@/components/Card";
import { Loaded } from "@/components/states";
import { text } from "@/text/settings";
import { mailQuery } from "./queries";
import classes from "./Settings.module.css";

const { state: words } = text;

/** The channels and whether anything leaves by them. */
export function Delivery({ settings }: { settings: readonly Schema<"Setting">[] }) {
  const query = useQuery({
    queryKey: ["settings", "notification-state"],
    queryFn: () => got(api.GET("/api/v1/notification-state")),
  });
  const mail = useQuery(mailQuery).data;
  const hosts = settings.find((each) => each.key === "notifications.webhookHosts")?.value;
  return (
    <Card
      title={words.title}
      aside={
        <Link to="/profile" search={{ tab: "notifications" } as never}>
          {words.mine}
        </Link>
      }
    >
      <Loaded query={query} rows={4}>
        {(state) => (
          <dl className={classes.facts}>
            <div className={classes.fact}>
              <dt>{words.all}</dt>
              <dd>{state.enabled ? words.sent : words.wait}</dd>
            </div>
            <div className={classes.fact}>
              <dt>{words.mail}</dt>
              <dd>{mail === null ? words.noServer : state.email.enabled ? words.ready : words.wait}</dd>
            </div>
            <div className={classes.fact}>
              <dt>{words.webhooks}</dt>
              <dd>{hosts ? words.hosts(String(hosts)) : words.noHosts}</dd>
            </div>
            <div className={classes.fact}>
              <dt>{words.slack}</dt>
              <dd>{words.slackHint}</dd>
            </div>
          </dl>
        )}
      </Loaded>
    </Card>
  );
}
