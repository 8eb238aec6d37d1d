import { Checkbox } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, call, got, type Schema } from "@/api/client";
import { useWritesHeld } from "@/api/writes";
import { refused } from "@/components/answers";
import { Card } from "@/components/Card";
import { Moment } from "@/components/Moment";
import { Empty, Loaded } from "@/components/states";
import { text } from "@/text/profile";
import classes from "./Profile.module.css";
import { operations, subscribed } from "./subscriptions";
import { Webhooks } from "./Webhooks";

const { notifications: words } = text;
const EMAIL = "email";

async function everything() {
  const [types, subscriptions, webhooks, channels, log] = await Promise.all([
    got(api.GET("/api/v1/notification-types")),
    got(api.GET("/api/v1/subscriptions")),
    got(api.GET("/api/v1/notification-webhooks")),
    got(api.GET("/api/v1/notification-channels")),
    got(api.GET("/api/v1/notifications", { params: { query: { limit: 50 } } })),
  ]);
  return {
    types: types as Schema<"NotificationType">[],
    subscriptions: subscriptions as Schema<"Subscription">[],
    webhooks: webhooks.webhooks,
    hasMail: (channels as Schema<"NotificationChannel">[]).some((each) => each.type === EMAIL || each.name === EMAIL),
    log: log.deliveries,
  };
}

type Everything = Awaited<ReturnType<typeof everything>>;

export function NotificationsTab() {
  const query = useQuery({ queryKey: ["me", "notifications"], queryFn: everything, staleTime: 0 });
  return (
    <Loaded query={query} rows={8}>
      {(data) => (
        <>
          <Subscriptions data={data} onChanged={() => void query.refetch()} />
          <Webhooks webhooks={data.webhooks} />
          <Log deliveries={data.log} />
        </>
      )}
    </Loaded>
  );
}

function Subscriptions({ data, onChanged }: { data: Everything; onChanged: () => void }) {
  const isHeld = useWritesHeld();
  const channels = [
    { id: EMAIL, label: words.mail, isOff: !data.hasMail },
    ...data.webhooks.map((each) => ({ id: `webhook:${each.name}`, label: words.webhook(each.name), isOff: false })),
  ];
  const toggle = async (channel: string, type: string, on: boolean) => {
    const types = subscribed(data.subscriptions, channel);
    on ? types.add(type) : types.delete(type);
    try {
      for (const { method, id, ...body } of operations(data.subscriptions, channel, [...types]))
        await call(method, `/api/v1/subscriptions${id ? `/${id}` : ""}`, method === "DELETE" ? undefined : body);
    } catch (error) {
      refused(error);
    }
    onChanged();
  };
  return (
    <Card title={words.subscriptions} note={words.subscriptionsHint}>
      <div className={classes.scroll}>
        <table className={classes.matrix}>
          <thead>
            <tr>
              <th scope="col">{words.event}</th>
              {channels.map((each) => (
                <th key={each.id} scope="col">
                  {each.label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {data.types.map((type) => (
              <tr key={type.type}>
                <th scope="row">
                  {words.events[type.type] ?? type.type}
                  <small>{type.description}</small>
                </th>
                {channels.map((channel) => (
                  <td key={channel.id}>
                    <Checkbox
                      size="sm"
                      disabled={isHeld || channel.isOff}
                      checked={subscribed(data.subscriptions, channel.id).has(type.type)}
                      onChange={(event) => void toggle(channel.id, type.type, event.currentTarget.checked)}
                      aria-label={words.cell(words.events[type.type] ?? type.type, channel.label)}
                    />
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!data.hasMail && <p className={classes.hint}>{words.mailOff}</p>}
    </Card>
  );
}

function Log({ deliveries }: { deliveries: readonly Schema<"Delivery">[] }) {
  if (deliveries.length === 0)
    return (
      <Card title={words.log}>
        <Empty title={words.logEmpty} />
      </Card>
    );
  return (
    <Card title={words.log}>
      <div className={classes.scroll}>
        <table className={classes.matrix}>
          <thead>
            <tr>
              <th scope="col">{words.at}</th>
              <th scope="col">{words.event}</th>
              <th scope="col">{words.workload}</th>
              <th scope="col">{words.channel}</th>
              <th scope="col">{words.state}</th>
            </tr>
          </thead>
          <tbody>
            {deliveries.map((each) => (
              <tr key={each.id}>
                <td>
                  <Moment at={each.at} />
                </td>
                <td>{words.events[each.event] ?? each.event}</td>
                <td>
                  <Link to="/workloads" search={{ q: each.workload } as never}>
                    {`${each.project}/${each.workload}`}
                  </Link>
                </td>
                <td>{each.channel}</td>
                <td>
                  {words.states[each.state] ?? each.state}
                  <small>
                    {(each.tries ?? 0) > 1 && words.tries(each.tries ?? 0)} {each.problem}
                  </small>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
