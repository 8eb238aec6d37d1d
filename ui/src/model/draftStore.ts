/** Drafts in the browser's storage. A browser may have several users: each has drafts of their own. */

const PREFIX = "fairpool.draft";

/** The browser's storage, which may be full or forbidden: then a draft lives as long as its page. */
export const kept = {
  read(key: string): string | null {
    try {
      return localStorage.getItem(key);
    } catch {
      return null;
    }
  },
  write(key: string, value: string | null): void {
    try {
      if (value === null) localStorage.removeItem(key);
      else localStorage.setItem(key, value);
    } catch {
      // nothing is lost that the page does not have
    }
  },
};

/** Where something of a user's drafts is kept. */
export const draftKey = (user: string, name: string): string => `${PREFIX}.${user}.${name}`;

/** At the end of a session: drafts have environment variables, and the next person may be another. */
export function forgetDrafts(): void {
  try {
    for (const key of Object.keys(localStorage)) if (key.startsWith(PREFIX)) localStorage.removeItem(key);
  } catch {
    // without storage there are none
  }
}
