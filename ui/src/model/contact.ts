/** Links to the people whom an administrator named: a mail address or a page. Pure. */

const SAFE = /^(https?:\/\/|mailto:)/;

/** The link if it is of a kind that a page may open; the server sends no other. */
export function contactLink(link: string | null | undefined): string | null {
  return link && SAFE.test(link) ? link : null;
}

/** How a link is read: the address itself. */
export function contactName(link: string): string {
  return link.replace(/^(mailto:|https?:\/\/)/, "").replace(/\/$/, "");
}

/** Where a message goes: the page, or the mail program, with the address filled in if there is one. */
export function messageLink(link: string | null | undefined, subject: string, body: string): string {
  const to = contactLink(link);
  if (to !== null && !to.startsWith("mailto:")) return to;
  return `${to ?? "mailto:"}?subject=${encodeURIComponent(subject)}&body=${encodeURIComponent(body)}`;
}
