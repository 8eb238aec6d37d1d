/** Lists that the server gives page by page. */

/** The longest page that the server gives. */
export const PAGE_MAX = 500;
const ROWS_MAX = 50_000;

interface Page {
  /** Offset of the next page; none: this is the last one. */
  next?: number | null;
}

/** The rows of all pages, `most` of them or a few more. */
export async function allRows<Answer extends Page, Row>(
  read: (offset: number) => Promise<Answer>,
  rowsOf: (answer: Answer) => readonly Row[],
  most = ROWS_MAX,
): Promise<Row[]> {
  const rows: Row[] = [];
  let offset = 0;
  while (rows.length < most) {
    const answer = await read(offset);
    for (const row of rowsOf(answer)) rows.push(row);
    if (answer.next == null || answer.next <= offset) break;
    offset = answer.next;
  }
  return rows;
}
