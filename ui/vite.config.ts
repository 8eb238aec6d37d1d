import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const built = fileURLToPath(new URL("../src/fairpool/control/static", import.meta.url));
const server = process.env.FAIRPOOL_SERVER ?? "http://127.0.0.1:8080";

interface Locked {
  dev?: boolean;
  optional?: boolean;
  version?: string;
  license?: string;
}

/** Writes the licences of everything that the bundle may contain, as those licences ask. */
function licences(): Plugin {
  const root = fileURLToPath(new URL(".", import.meta.url));
  return {
    name: "licences",
    apply: "build",
    generateBundle() {
      const { packages } = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
        packages: Record<string, Locked>;
      };
      const shipped = Object.entries(packages).filter(([path, { dev }]) => path !== "" && !dev);
      const source = shipped.map(([path, locked]) => licenceOf(join(root, path), path, locked)).join("\n\n");
      this.emitFile({ type: "asset", fileName: "third-party-licences.txt", source });
    },
  };
}

function licenceOf(folder: string, path: string, { version, license }: Locked): string {
  const name = path.replace(/^.*node_modules\//, "");
  const found = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }) : [];
  const files = found.filter((each) => each.isFile() && /^(licen[cs]e|notice)/i.test(each.name));
  const words = files.map((each) => readFileSync(join(folder, each.name), "utf8").trim());
  return [`== ${name} ${version} (${license})`, ...words].join("\n\n");
}

/** Writes a compressed copy beside each file, so that the server never compresses anything. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    closeBundle() {
      if (existsSync(built)) compress(built);
    },
  };
}

function compress(folder: string): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) compress(path);
    else if (!/\.(gz|woff2|png)$/.test(name) && statSync(path).size > 1024)
      writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
  }
}

const proxied = [
  "/api",
  "/sign-in",
  "/sign-out",
  "/docs",
  "/download",
  "/metrics",
  "/forgot-password",
  "/reset-password",
  "/tools",
  "/.well-known",
];

export default defineConfig({
  plugins: [react(), licences(), compressed()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: built,
    emptyOutDir: true,
    target: "es2022",
    chunkSizeWarningLimit: 700,
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  server: {
    host: "127.0.0.1",
    proxy: Object.fromEntries(proxied.map((path) => [path, { target: server, ws: path === "/api" }])),
  },
  test: { testTimeout: 60_000, environment: "jsdom", include: ["src/**/*.test.{ts,tsx}"] },
});
