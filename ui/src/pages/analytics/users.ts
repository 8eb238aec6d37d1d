/** Names of users for filters: those who used something in the last month, as far as the reader may see. */
import { useQuery } from "@tanstack/react-query";
import { usageOf } from "./data";

const MONTH_MS = 30 * 86_400_000;

export function useUserNames(): string[] {
  const { data } = useQuery({
    queryKey: ["history", "users"],
    staleTime: 300_000,
    queryFn: async () => {
      const now = Date.now();
      const answer = await usageOf({ from: now - MONTH_MS, to: now }, "user", undefined);
      return [...new Set(answer.rows.map((each) => each.user).filter((each) => each != null))].sort();
    },
  });
  return data ?? [];
}
