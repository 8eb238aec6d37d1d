/** Lines of a log: escape sequences of terminals, carriage returns, widths. Pure. */

/** Sequences that a terminal would obey: colours, moves of the cursor, titles. */
const ESC = "\\x1b";
const ESCAPES = new RegExp(
  [
    `${ESC}\\[[0-9;:?<=>]*[ -/]*[@-~]`, // colours and moves
    `${ESC}\\][^\\x07\\x1b]*(?:\\x07|${ESC}\\\\)?`, // titles and links
    `${ESC}[PX^_][^\\x1b]*(?:${ESC}\\\\)?`,
    `${ESC}[ -/]*[0-~]`,
  ].join("|"),
  "g",
);
/** Other control characters, except tab, carriage return and line feed. */
const CONTROLS = /[^\t\n\r -~\u0080-\uffff]/g;
const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** A line as the reader sees it: what a carriage return has overwritten, escapes and controls are gone. */
export function plainLine(line: string): string {
  if (!/[\r\t]|[^\x20-\uffff]/.test(line)) return line;
  return overwritten(line).replace(ESCAPES, "").replace(CONTROLS, "").replaceAll("\t", "        ");
}

/** Programs draw progress by writing over the line: the last state counts. */
function overwritten(line: string): string {
  const written = line.endsWith("\r") ? line.slice(0, -1) : line;
  const at = written.lastIndexOf("\r");
  return at < 0 ? written : written.slice(at + 1);
}

/** Pieces of one line that have a colour of their own; a program that writes more of them would fill the page. */
export const SPANS_MAX = 256;

export interface Span {
  words: string;
  colour: string | null;
  bold: boolean;
}

/** A line in pieces of one colour. Colours beyond the eight of every terminal are left out. */
export function spansOf(line: string): Span[] {
  const shown = overwritten(line);
  if (!shown.includes("\x1b")) return [{ words: plainLine(shown), colour: null, bold: false }];
  const spans: Span[] = [];
  let colour: string | null = null;
  let bold = false;
  let from = 0;
  const add = (words: string) => {
    const plain = words.replace(CONTROLS, "").replaceAll("\t", "        ");
    if (plain !== "") spans.push({ words: plain, colour, bold });
  };
  for (const found of shown.matchAll(ESCAPES)) {
    add(shown.slice(from, found.index));
    from = found.index + found[0].length;
    if (spans.length >= SPANS_MAX) {
      spans.push({ words: plainLine(shown.slice(from)), colour: null, bold: false });
      return spans;
    }
    if (!found[0].startsWith("\x1b[") || !found[0].endsWith("m")) continue;
    [colour, bold] = styled(found[0].slice(2, -1), colour, bold);
  }
  add(shown.slice(from));
  return spans;
}

function styled(codes: string, before: string | null, wasBold: boolean): [string | null, boolean] {
  let colour = before;
  let bold = wasBold;
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at]!;
    if (code === 0) [colour, bold] = [null, false];
    else if (code === 1) bold = true;
    else if (code === 22) bold = false;
    else if (code === 39) colour = null;
    else if (code >= 30 && code <= 37) colour = COLOURS[code - 30]!;
    else if (code >= 90 && code <= 97) colour = COLOURS[code - 90]!;
    else if (code === 38 || code === 48) at += numbers[at + 1] === 5 ? 2 : 4;
  }
  return [colour, bold];
}

const WIDE =
  /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uff60\uffe0-\uffe6\ud83c-\ud83e]/g;

/** Columns that a plain line takes in a font of one width. */
export function columnsOf(plain: string): number {
  if (!/[^ -~]/.test(plain)) return plain.length;
  return plain.length + (plain.match(WIDE)?.length ?? 0);
}

const STAMP = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z) /;

/** The time that stands before a line, and the line. */
export function stamped(line: string): [string | null, string] {
  const shown = overwritten(line);
  const found = STAMP.exec(shown);
  return found === null ? [null, shown] : [found[1]!, shown.slice(found[0].length)];
}
