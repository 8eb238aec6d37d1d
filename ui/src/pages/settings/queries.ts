import { queryOptions } from "@tanstack/react-query";
import { api, got, type Schema } from "@/api/client";

export const settingsQuery = queryOptions({
  queryKey: ["settings", "all"],
  queryFn: async () => (await got(api.GET("/api/v1/settings"))).settings,
});

/** The mail server; null: none is set up. The list of channels says so without an error. */
export const mailQuery = queryOptions({
  queryKey: ["settings", "mail"],
  queryFn: async () => {
    const channels = (await got(api.GET("/api/v1/notification-channels"))) as Schema<"NotificationChannel">[];
    return channels.length === 0 ? null : got(api.GET("/api/v1/mail/settings"));
  },
  staleTime: 0,
});

export const autoRedirectQuery = queryOptions({
  queryKey: ["settings", "autoRedirect"],
  queryFn: () => got(api.GET("/api/v1/security/settings/autoRedirectSSO")),
});
