/** Deletions that can be taken back for eight seconds: what is being deleted is hidden at once. */
import { type QueryKey, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { withUndo } from "./answers";

export interface Removal {
  isHidden: (id: string) => boolean;
  remove: (ids: readonly string[], message: string, act: () => Promise<unknown>) => void;
}

/** `keys` are read again when something was deleted. */
export function useRemoval(...keys: QueryKey[]): Removal {
  const queries = useQueryClient();
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const read = JSON.stringify(keys);
  const remove = useCallback(
    (ids: readonly string[], message: string, act: () => Promise<unknown>) => {
      setHidden((before) => new Set([...before, ...ids]));
      const show = () => setHidden((before) => new Set([...before].filter((each) => !ids.includes(each))));
      const actAndRead = async () => {
        await act();
        for (const key of JSON.parse(read) as QueryKey[]) await queries.invalidateQueries({ queryKey: key });
        show(); // what is created under the same name afterwards is another one
      };
      withUndo(message, actAndRead, show);
    },
    [queries, read],
  );
  return { isHidden: (id) => hidden.has(id), remove };
}
