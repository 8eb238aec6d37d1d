/** Files that the reader keeps. */

/** One value of a CSV file (RFC 4180). A text that a spreadsheet would take for a formula begins with an apostrophe. */
export function csvValue(value: string | number | null | undefined): string {
  if (value == null) return "";
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csvOf(
  columns: readonly string[],
  rows: readonly (readonly (string | number | null | undefined)[])[],
): string {
  return [columns, ...rows].map((row) => row.map(csvValue).join(",")).join("\r\n") + "\r\n";
}

export function saveText(name: string, content: string, type: string): void {
  saveBlob(name, new Blob([content], { type: `${type};charset=utf-8` }));
}

/** Decoded here: the policy of our pages lets them fetch nothing but this server, and `data:` is not part of it. */
export function saveDataUrl(name: string, url: string): void {
  saveBlob(name, blobOf(url));
}

export function blobOf(url: string): Blob {
  const [head = "", encoded = ""] = url.split(",", 2);
  const bytes = Uint8Array.from(atob(encoded), (each) => each.charCodeAt(0));
  return new Blob([bytes], { type: /^data:([^;]+)/.exec(head)?.[1] ?? "application/octet-stream" });
}

function saveBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
