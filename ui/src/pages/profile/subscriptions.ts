/** Which events go to which channel, out of subscriptions that may have several of both. */
import type { Schema } from "@/api/client";

type Subscription = Schema<"Subscription">;
export const CATEGORY = "workload";

export interface Operation {
  method: "POST" | "PUT" | "DELETE";
  id?: string;
  events?: { category: string; types: string[] }[];
  channels?: string[];
}

function typesOf(subscription: Subscription): string[] {
  return subscription.events.filter((each) => each.category === CATEGORY).flatMap((each) => each.types);
}

export function subscribed(all: readonly Subscription[], channel: string): Set<string> {
  return new Set(all.filter((each) => each.channels.includes(channel)).flatMap(typesOf));
}

/** What to send so that a channel gets these events and no others, and every other channel what it has. */
export function operations(all: readonly Subscription[], channel: string, types: readonly string[]): Operation[] {
  const found = all.filter((each) => each.channels.includes(channel));
  const [own, ...others] = found.filter((each) => each.channels.length === 1);
  const shared = found.filter((each) => each.channels.length > 1);
  const events = [{ category: CATEGORY, types: [...types] }];
  const first: Operation[] =
    types.length === 0
      ? own
        ? [{ method: "DELETE", id: own.id }]
        : []
      : [
          own
            ? { method: "PUT", id: own.id, events, channels: [channel] }
            : { method: "POST", events, channels: [channel] },
        ];
  return [
    ...first,
    ...others.map((each): Operation => ({ method: "DELETE", id: each.id })),
    ...shared.map(
      (each): Operation => ({
        method: "PUT",
        id: each.id,
        events: each.events,
        channels: each.channels.filter((one) => one !== channel),
      }),
    ),
  ];
}
