/** Words of a shell: how a command is taken apart, and how a word is written so that a shell gives it back unchanged. */

/** The words of a command, as a POSIX shell would see them without expanding anything; null: a quote is not closed. */
export function shellWords(line: string): string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let quote: string | null = null;
  for (let at = 0; at < line.length; at++) {
    const sign = line[at]!;
    if (quote === "'") {
      if (sign === "'") quote = null;
      else word += sign;
    } else if (quote === '"') {
      if (sign === '"') quote = null;
      else if (sign === "\\" && '"\\'.includes(line[at + 1] ?? " ")) word += line[++at]!;
      else word += sign;
    } else if (sign === "'" || sign === '"') {
      quote = sign;
      word ??= "";
    } else if (sign === "\\" && at + 1 < line.length) {
      word = (word ?? "") + line[++at]!;
    } else if (/\s/.test(sign)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? "") + sign;
    }
  }
  if (quote !== null) return null;
  if (word !== null) words.push(word);
  return words;
}

const PLAIN = /^[A-Za-z0-9_@%+=:,./-]+$/;

export function shellQuote(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** What was given as a list of words or as one line, as words. */
export function wordsOf(said: unknown): string[] {
  if (Array.isArray(said)) return said.map(String);
  if (typeof said !== "string" || said.trim() === "") return [];
  return shellWords(said) ?? [said];
}
