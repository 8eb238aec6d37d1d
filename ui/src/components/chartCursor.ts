/** The moment under the pointer, for all charts of a group. Kept outside of React: it moves with every pixel. */
type Watcher = (at: number | null, from: string) => void;

const watchers = new Map<string, Set<Watcher>>();

export const cursors = {
  watch(group: string, watcher: Watcher): () => void {
    const all = watchers.get(group) ?? new Set();
    watchers.set(group, all.add(watcher));
    return () => all.delete(watcher);
  },
  set(group: string, at: number | null, from: string): void {
    for (const each of watchers.get(group) ?? []) each(at, from);
  },
};
