/** What each kind of asset is: its path, its types, its fields. The grid and the forms are made of this table. */
import type { FieldDescription } from "@/components/specForm/description";
import type { Fields } from "@/model/paths";
import { field, MOUNTS, RESOURCES, TOOLS, variables } from "@/pages/submit/sections";
import { text } from "@/text/assets";
import { text as words } from "@/text/submit";

export const KINDS = [
  "templates",
  "environments",
  "compute",
  "datasources",
  "credentials",
  "registries",
  "volumes",
  "configmaps",
] as const;
export type AssetKey = (typeof KINDS)[number];

export interface AssetType {
  value: string;
  label: string;
  fields: readonly FieldDescription[];
}

export interface AssetKind {
  key: AssetKey;
  /** Where the list is. */
  list: string;
  /** Where one of a type is created; a slash and the id follow for the others. */
  path: (type: string) => string;
  types: readonly AssetType[];
  /** Permissions begin with this word; none: everybody who may submit. */
  permission: string | null;
  canCreate: boolean;
  canEdit: boolean;
  /** Values are secret: they are written and never read. */
  isSecret?: boolean;
  /** A submit can name it. */
  search?: (name: string) => Fields;
}

const plain = (...values: string[]) => values.map((value) => ({ value, label: value }));
const unprefixed = (fields: readonly FieldDescription[]) =>
  fields.map((each) => ({ ...each, path: each.path.replace(/^compute\./, "") }));

const ENVIRONMENT: readonly FieldDescription[] = [
  field("image", "text", { isRequired: true }),
  field("command", "text"),
  field("args", "text"),
  field("workingDir", "text"),
  field("pythonEnv", "text"),
  variables("environmentVariables"),
  field("connections", "list", {
    item: words.items.tool,
    blank: { internalToolInfo: { toolType: "jupyter-notebook", connectionType: "ExternalUrl" } },
    columns: [
      field("name", "text", {}, "connection.name"),
      field("internalToolInfo.toolType", "choice", { options: TOOLS, isRequired: true }, "connection.type"),
      field(
        "internalToolInfo.connectionType",
        "choice",
        { options: plain("ExternalUrl", "NodePort", "LoadBalancer", "ClusterIP", "ServingPort"), isRequired: true },
        "connection.way",
      ),
      field("internalToolInfo.containerPort", "number", { min: 1, max: 65_535 }, "connection.port"),
    ],
  }),
  field("runAsUid", "number", { min: 0 }),
  field("runAsGid", "number", { min: 0 }),
  field("supplementalGroups", "text"),
  field("capabilities", "names"),
  field("runAsNonRoot", "switch"),
  field("stdin", "switch"),
  field("tty", "switch"),
];

const COMPUTE: readonly FieldDescription[] = unprefixed([
  field("compute.gpu", "text", { placeholder: "0.5" }),
  field("compute.gpuMemoryRequest", "text", { placeholder: "4G" }),
  field("compute.migProfile", "text", { placeholder: "1g.5gb" }),
  ...RESOURCES,
]);

const said = (key: keyof typeof text.secrets): FieldDescription => ({
  path: key,
  label: text.secrets[key],
  control: "text",
});
const secret = (key: keyof typeof text.secrets): FieldDescription => ({
  path: key,
  label: text.secrets[key],
  control: "secret",
});

const CREDENTIALS: readonly AssetType[] = [
  {
    value: "docker-registry",
    label: text.types["docker-registry"],
    fields: [said("url"), said("user"), secret("password")],
  },
  { value: "access-key", label: text.types["access-key"], fields: [said("accessKeyId"), secret("secretAccessKey")] },
  { value: "password", label: text.types.password, fields: [said("user"), secret("password")] },
  { value: "git", label: text.types.git_login, fields: [said("user"), secret("password")] },
  {
    value: "generic-secret",
    label: text.types["generic-secret"],
    fields: [
      {
        path: "data",
        label: text.secrets.data,
        control: "list",
        item: words.items.key,
        blank: { name: "", value: "" },
        columns: [
          { path: "name", label: text.secrets.key, control: "text" },
          { path: "value", label: text.secrets.value, control: "secret" },
        ],
      },
    ],
  },
  { value: "ngc-api-key", label: text.types["ngc-api-key"], fields: [secret("ngcApiKey")] },
];

const SOURCES: readonly AssetType[] = (
  [
    ["pvc", "pvc"],
    ["host-path", "hostPath"],
    ["git", "git"],
    ["config-map", "configMap"],
    ["secrets", "secret"],
    ["nfs", "nfs"],
    ["s3", "s3"],
  ] as const
).map(([value, mount]) => ({ value, label: text.types[value], fields: MOUNTS[mount]! }));

const ENTRIES: readonly FieldDescription[] = [
  {
    path: "data",
    label: text.entries,
    control: "list",
    item: words.items.file,
    blank: { name: "", value: "" },
    columns: [
      { path: "name", label: text.secrets.key, control: "text" },
      { path: "value", label: text.secrets.value, control: "area" },
    ],
  },
];

const one = (value: string, fields: readonly FieldDescription[]): AssetType[] => [{ value, label: "", fields }];
const at = (path: string) => () => path;

export const ASSETS: Record<AssetKey, AssetKind> = {
  templates: {
    key: "templates",
    list: "/api/v1/asset/workload-template",
    path: at("/api/v1/asset/workload-template"),
    types: one("workload-template", []),
    permission: "template",
    canCreate: true,
    canEdit: true,
    search: (template) => ({ template }),
  },
  environments: {
    key: "environments",
    list: "/api/v1/asset/environment",
    path: at("/api/v1/asset/environment"),
    types: one("environment", ENVIRONMENT),
    permission: "environment",
    canCreate: true,
    canEdit: true,
  },
  compute: {
    key: "compute",
    list: "/api/v1/asset/compute",
    path: at("/api/v1/asset/compute"),
    types: one("compute", COMPUTE),
    permission: "compute",
    canCreate: true,
    canEdit: true,
  },
  datasources: {
    key: "datasources",
    list: "/api/v1/asset/datasource",
    path: (type) => `/api/v1/asset/datasource/${type}`,
    types: SOURCES,
    permission: "data-source",
    canCreate: true,
    canEdit: true,
  },
  credentials: {
    key: "credentials",
    list: "/api/v1/asset/credentials",
    path: (type) => `/api/v1/asset/credentials/${type}`,
    types: CREDENTIALS,
    permission: "credential",
    canCreate: true,
    canEdit: true,
    isSecret: true,
  },
  registries: {
    key: "registries",
    list: "/api/v1/asset/credentials/docker-registry",
    path: at("/api/v1/asset/credentials/docker-registry"),
    types: CREDENTIALS.slice(0, 1),
    permission: "credential",
    canCreate: true,
    canEdit: true,
    isSecret: true,
  },
  volumes: {
    key: "volumes",
    list: "/api/v1/claims",
    path: at("/api/v1/claims"),
    types: one("claim", []),
    permission: null,
    canCreate: false,
    canEdit: false,
  },
  configmaps: {
    key: "configmaps",
    list: "/api/v1/config-maps",
    path: at("/api/v1/config-maps"),
    types: one("config-map", ENTRIES),
    permission: null,
    canCreate: true,
    canEdit: true,
  },
};

/** The word of a data source in the list of all, as its path has it. */
const PATH_OF: Record<string, string> = { hostPath: "host-path", "secret-volume": "secrets", secretVolume: "secrets" };
export const typeOf = (kind: string): string => PATH_OF[kind] ?? kind;
