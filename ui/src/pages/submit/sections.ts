/** The folded sections of the form, as tables. */
import type { FieldDescription, Option } from "@/components/specForm/description";
import type { Fields } from "@/model/paths";
import { hasField, type Kind } from "@/model/submission";
import { fieldWords } from "@/text/specFields";
import { text } from "@/text/submit";

type Rest = Omit<FieldDescription, "path" | "label" | "hint">;

/** A field whose words are those of its path, or of another name where the path is within an item. */
export function field(
  path: string,
  control: FieldDescription["control"],
  rest: Partial<Rest> = {},
  words = path,
): FieldDescription {
  const [label, hint] = fieldWords[words] ?? [words];
  return { path, label, control, ...(hint === undefined ? {} : { hint }), ...rest };
}

const plain = (...values: string[]): Option[] => values.map((value) => ({ value, label: value }));
const { options, items } = text;

const isFrom = (key: string) => (item: Fields) => item[key] !== undefined;

export function variables(path: string, words = path): FieldDescription {
  return field(
    path,
    "list",
    {
      item: items.variable,
      blank: { name: "", value: "" },
      columns: [
        field("name", "text", { placeholder: "EPOCHS" }, "variable.name"),
        field(
          "from",
          "variant",
          {
            options: [
              { value: "value", label: options.value },
              { value: "credential", label: options.credential },
              { value: "configMap", label: options.configMap },
            ],
            variantOf: (item) =>
              isFrom("credential")(item) ? "credential" : isFrom("configMap")(item) ? "configMap" : "value",
            toVariant: ({ name }, variant) =>
              variant === "value" ? { name, value: "" } : { name, [variant]: { name: "", key: "" } },
          },
          "variable.from",
        ),
        field(
          "value",
          "text",
          { isShown: (item) => !isFrom("credential")(item) && !isFrom("configMap")(item) },
          "variable.value",
        ),
        field("credential.name", "suggest", { source: "credentials", isShown: isFrom("credential") }),
        field("credential.key", "suggest", {
          sourceOf: (item) => `keys of ${(item.credential as Fields | undefined)?.name ?? ""}`,
          isShown: isFrom("credential"),
        }),
        field("configMap.name", "suggest", { source: "configMaps", isShown: isFrom("configMap") }),
        field("configMap.key", "suggest", {
          sourceOf: (item) => `entries of ${(item.configMap as Fields | undefined)?.name ?? ""}`,
          isShown: isFrom("configMap"),
        }),
      ],
    },
    words,
  );
}

const isNew = (item: Fields) => item.existingPvc === false;

/** The fields of one mount of each kind: of an item of a list here, and of a data source. */
export const MOUNTS: Record<string, readonly FieldDescription[]> = {
  pvc: [
    field(
      "way",
      "variant",
      {
        options: [
          { value: "existing", label: options.existing },
          { value: "new", label: options.new },
        ],
        variantOf: (item) => (isNew(item) ? "new" : "existing"),
        toVariant: ({ path, claimName }, variant) =>
          variant === "new"
            ? { path, claimName, existingPvc: false, claimInfo: { size: "" } }
            : { path, claimName, existingPvc: true },
      },
      "pvc.way",
    ),
    field("claimName", "suggest", { source: "claims" }, "pvc.claimName"),
    field("path", "text", { placeholder: "/data" }, "pvc.path"),
    field("claimInfo.size", "text", { isShown: isNew, placeholder: "10G" }, "pvc.claimInfo.size"),
    field(
      "claimInfo.accessMode",
      "choice",
      {
        isShown: isNew,
        options: [
          { value: "rwo", label: options.rwo },
          { value: "rwm", label: options.rwm },
          { value: "rom", label: options.rom },
        ],
      },
      "pvc.claimInfo.accessMode",
    ),
    field(
      "claimInfo.storageClass",
      "suggest",
      { isShown: isNew, source: "storageClasses" },
      "pvc.claimInfo.storageClass",
    ),
    field("ephemeral", "switch", { isShown: isNew }, "pvc.ephemeral"),
    field("readOnly", "switch", {}, "pvc.readOnly"),
  ],
  hostPath: [
    field("path", "text", { placeholder: "/raid/data" }, "hostPath.path"),
    field("mountPath", "text", { placeholder: "/data" }, "hostPath.mountPath"),
    field("readOnly", "switch", {}, "hostPath.readOnly"),
  ],
  git: [
    field("repository", "text", { placeholder: "https://git.example.com/train.git" }, "git.repository"),
    field("branch", "text", {}, "git.branch"),
    field("revision", "text", {}, "git.revision"),
    field("path", "text", { placeholder: "/code" }, "git.path"),
    field("credential", "suggest", { source: "credentials" }, "git.credential"),
  ],
  configMap: [
    field("name", "suggest", { source: "configMaps" }, "configMapVolume.name"),
    field("mountPath", "text", { placeholder: "/settings" }, "configMapVolume.mountPath"),
  ],
  secret: [
    field("name", "suggest", { source: "credentials" }, "secretVolume.name"),
    field("mountPath", "text", { placeholder: "/secrets" }, "secretVolume.mountPath"),
  ],
  nfs: [
    field("server", "text", {}, "nfs.server"),
    field("path", "text", {}, "nfs.path"),
    field("mountPath", "text", { placeholder: "/data" }, "nfs.mountPath"),
    field("readOnly", "switch", {}, "nfs.readOnly"),
  ],
  s3: [
    field("bucket", "text", {}, "s3.bucket"),
    field("path", "text", { placeholder: "/data" }, "s3.path"),
    field("url", "text", {}, "s3.url"),
    field("credential", "suggest", { source: "credentials" }, "s3.credential"),
  ],
};

export const TOOLS = plain(
  "jupyter-notebook",
  "pycharm",
  "visual-studio-code",
  "tensorboard",
  "rstudio",
  "mlflow",
  "matlab",
  "chatbot-ui",
  "custom",
);

const pair = (path: string, item: string): FieldDescription =>
  field(path, "list", {
    item,
    blank: { name: "", value: "" },
    columns: [field("name", "text", {}, "pair.name"), field("value", "text", {}, "pair.value")],
  });

export const RESOURCES: readonly FieldDescription[] = [
  field("compute.cpuCoreRequest", "number", { min: 0, step: 0.5 }),
  field("compute.cpuCoreLimit", "number", { min: 0, step: 0.5 }),
  field("compute.cpuMemoryRequest", "text", { placeholder: "4Gi" }),
  field("compute.cpuMemoryLimit", "text", { placeholder: "8Gi" }),
  field("compute.largeShmRequest", "switch"),
  field("compute.extendedResources", "list", {
    item: items.resource,
    blank: { resource: "" },
    columns: [
      field("resource", "text", {}, "resource.resource"),
      field("quantity", "number", { min: 0 }, "resource.quantity"),
    ],
  }),
];

const STORAGE: readonly FieldDescription[] = [
  field("storage.pvc", "list", { item: items.claim, blank: { existingPvc: true }, columns: MOUNTS.pvc! }),
  field("storage.hostPath", "list", { item: items.folder, columns: MOUNTS.hostPath! }),
  field("storage.git", "list", { item: items.repository, columns: MOUNTS.git! }),
  field("storage.configMapVolume", "list", { item: items.configMap, columns: MOUNTS.configMap! }),
  field("storage.secretVolume", "list", { item: items.credential, columns: MOUNTS.secret! }),
  field("storage.emptyDirVolume", "list", {
    item: items.folder,
    columns: [
      field("path", "text", { placeholder: "/scratch" }, "emptyDir.path"),
      field("sizeLimit", "text", { placeholder: "10G" }, "emptyDir.sizeLimit"),
      field("medium", "choice", { options: [{ value: "Memory", label: options.memory }] }, "emptyDir.medium"),
    ],
  }),
];

const PORTS: readonly FieldDescription[] = [
  field("ports", "list", {
    item: items.port,
    blank: { serviceType: "Ingress" },
    columns: [
      field("container", "number", { min: 1, max: 65_535, placeholder: "8888" }, "port.container"),
      field(
        "serviceType",
        "choice",
        { options: plain("Ingress", "NodePort", "LoadBalancer", "PortForward", "ClusterIP"), isRequired: true },
        "port.serviceType",
      ),
      field(
        "external",
        "number",
        {
          min: 1,
          max: 65_535,
          isShown: (item) => item.serviceType === "NodePort" || item.serviceType === "LoadBalancer",
        },
        "port.external",
      ),
      field("toolType", "choice", { options: TOOLS }, "port.toolType"),
      field("toolName", "text", {}, "port.toolName"),
    ],
  }),
  field("exposedUrls", "list", {
    item: items.url,
    columns: [
      field("container", "number", { min: 1, max: 65_535 }, "url.container"),
      field("toolType", "choice", { options: TOOLS }, "url.toolType"),
      field("toolName", "text", {}, "url.toolName"),
      field("authorizationType", "suggest", {}, "url.authorizationType"),
    ],
  }),
];

const SCHEDULING: readonly FieldDescription[] = [
  field("nodePools", "tags", { source: "pools" }),
  field("nodeType", "suggest", { source: "nodeTypes" }),
  field("priorityClass", "choice", { options: plain("train", "interactive-preemptible", "build", "inference") }),
  field("preemptibility", "choice", {
    options: [
      { value: "preemptible", label: options.preemptible },
      { value: "non-preemptible", label: options.nonPreemptible },
    ],
  }),
  field("after", "names", { source: "workloads" }),
  field("topology.name", "suggest", { source: "topologies" }),
  field("topology.required", "suggest", { source: "nodeLabels" }),
  field("topology.preferred", "suggest", { source: "nodeLabels" }),
  field("terminateAfterPreemption", "switch"),
  field("nodeAffinityPreferred", "list", {
    item: items.node,
    blank: { weight: 50, preference: { matchExpressions: [{ key: "", operator: "In", values: [""] }] } },
    columns: [
      field("preference.matchExpressions.0.key", "suggest", { source: "nodeLabels" }, "preference.key"),
      field("preference.matchExpressions.0.values.0", "text", {}, "preference.value"),
      field("weight", "number", { min: 1, max: 100 }, "preference.weight"),
    ],
  }),
  field("tolerations", "list", {
    item: items.toleration,
    blank: { operator: "Equal" },
    columns: [
      field("key", "text", {}, "toleration.key"),
      field(
        "operator",
        "choice",
        {
          isRequired: true,
          options: [
            { value: "Equal", label: options.equal },
            { value: "Exists", label: options.exists },
          ],
        },
        "toleration.operator",
      ),
      field("value", "text", { isShown: (item) => item.operator !== "Exists" }, "toleration.value"),
      field("effect", "choice", { options: plain("NoSchedule", "NoExecute", "PreferNoSchedule") }, "toleration.effect"),
      field("seconds", "number", { min: 0 }, "toleration.seconds"),
    ],
  }),
];

const LIMITS: readonly FieldDescription[] = [
  field("deadlineSeconds", "duration", { placeholder: "2h" }),
  field("backoffLimit", "number", { min: 0 }),
  field("terminationGracePeriodSeconds", "duration", { placeholder: "30s" }),
  field("autoDeletionTimeAfterCompletionSeconds", "duration", { placeholder: "1d" }),
  field("restartPolicy", "choice", {
    options: [
      { value: "Always", label: options.always },
      { value: "OnFailure", label: options.onFailure },
      { value: "Never", label: options.never },
    ],
  }),
];

const ACCESS: readonly FieldDescription[] = [
  field("security.runAsUser", "switch"),
  field("security.runAsNonRoot", "switch"),
  field("security.runAsUid", "number", { min: 0 }),
  field("security.runAsGid", "number", { min: 0 }),
  field("security.supplementalGroups", "text"),
  field("security.capabilities", "names"),
  field("security.allowPrivilegeEscalation", "switch"),
  field("security.readOnlyRootFilesystem", "switch"),
  field("security.hostIpc", "switch"),
  field("security.hostNetwork", "switch"),
  field("security.seccompProfileType", "suggest"),
];

const ADVANCED: readonly FieldDescription[] = [
  field("workingDir", "text", { placeholder: "/workload" }),
  field("pythonEnv", "text"),
  field("imagePullPolicy", "choice", {
    options: [
      { value: "Always", label: options.always },
      { value: "IfNotPresent", label: options.ifNotPresent },
      { value: "Never", label: options.never },
    ],
  }),
  field("imagePullSecret", "suggest", { source: "registryCredentials" }),
  field("stdin", "switch"),
  field("tty", "switch"),
  pair("labels", items.label),
  pair("annotations", items.annotation),
  field("relatedUrls", "list", {
    item: items.link,
    columns: [field("url", "text", {}, "link.url"), field("name", "text", {}, "link.name")],
  }),
];

const GANG: readonly FieldDescription[] = [
  field("distributedFramework", "choice", { options: plain("PyTorch", "MPI", "TF", "XGBoost", "JAX") }),
  field("numWorkers", "number", { min: 1 }),
  field("minReplicas", "number", { min: 1 }),
  field("maxReplicas", "number", { min: 1 }),
  field("slotsPerWorker", "number", { min: 1, isShown: (spec) => spec.distributedFramework === "MPI" }),
  field("cleanPodPolicy", "choice", {
    options: [
      { value: "Running", label: options.running },
      { value: "All", label: options.all },
      { value: "None", label: options.keep },
    ],
  }),
  field("noMaster", "switch"),
  field("masterNoPvcs", "switch", { isShown: (spec) => spec.noMaster !== true }),
  ...(
    [
      ["masterSpec.compute.gpu", "text"],
      ["masterSpec.compute.cpuCoreRequest", "number"],
      ["masterSpec.compute.cpuMemoryRequest", "text"],
      ["masterSpec.image", "text"],
      ["masterSpec.command", "text"],
      ["masterSpec.args", "text"],
    ] as const
  ).map(([path, control]) => field(path, control, { isShown: (spec) => spec.noMaster !== true })),
];

const SWEEP: readonly FieldDescription[] = [
  field("array.indices", "text", { placeholder: "0-9" }),
  field("completions", "number", { min: 1 }),
  field("parallelism", "number", { min: 1 }),
  field("array.parameters", "list", {
    item: items.parameter,
    blank: { name: "", values: [] },
    columns: [
      field("name", "text", { placeholder: "lr" }, "parameter.name"),
      field("values", "names", { placeholder: "0.1, 0.01" }, "parameter.values"),
    ],
  }),
];

const SERVING: readonly FieldDescription[] = [
  field("servingPort.container", "number", { min: 1, max: 65_535, placeholder: "8000" }),
  field("servingPort.protocol", "choice", { options: plain("http", "grpc") }),
  field("autoscaling.minReplicas", "number", { min: 1 }),
  field("servingPort.authorizationType", "suggest"),
];

export interface Section {
  key: keyof typeof text.sections;
  fields: readonly FieldDescription[];
}

/** What belongs to the kind stands open above the folded rest. */
export function ownSection(kind: Kind): Section | null {
  if (kind === "distributed") return { key: "gang", fields: GANG };
  if (kind === "sweep") return { key: "sweep", fields: SWEEP };
  return kind === "inference" ? { key: "serving", fields: SERVING } : null;
}

export function foldedSections(kind: Kind): Section[] {
  const all: Section[] = [
    {
      key: "variables",
      fields: [
        variables("environmentVariables"),
        ...(kind === "distributed" ? [variables("masterSpec.environmentVariables")] : []),
      ],
    },
    { key: "storage", fields: STORAGE },
    { key: "ports", fields: PORTS },
    { key: "resources", fields: RESOURCES },
    { key: "scheduling", fields: SCHEDULING },
    { key: "limits", fields: LIMITS },
    { key: "access", fields: ACCESS },
    { key: "advanced", fields: ADVANCED },
  ];
  return all.map((each) => ({ ...each, fields: each.fields.filter(({ path }) => hasField(kind, path)) }));
}
