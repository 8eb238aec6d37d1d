/** Common beginnings: one click fills image, command and port. */
import { type Fields, withValue } from "@/model/paths";
import type { Kind } from "@/model/submission";

export interface Preset {
  key: "jupyter" | "tensorboard" | "shell" | "python" | "sample";
  kinds: readonly Kind[];
  values: (name: string, spec: Fields) => Fields;
}

const ingress = (container: number, toolType: string, spec: Fields) => {
  const others = Array.isArray(spec.ports)
    ? (spec.ports as Fields[]).filter((each) => each.container !== container)
    : [];
  return [...others, { container, serviceType: "Ingress", toolType }];
};

const RUNS: readonly Kind[] = ["training", "distributed", "sweep"];

/** As `runai submit --jupyter --service-type ingress` does it. */
export const PRESETS: readonly Preset[] = [
  {
    key: "jupyter",
    kinds: ["workspace"],
    values: (name, spec) => ({
      image: "jupyter/base-notebook",
      command: "start-notebook.sh",
      args: `--NotebookApp.base_url=${name}`,
      ports: ingress(8888, "jupyter-notebook", spec),
    }),
  },
  {
    key: "tensorboard",
    kinds: ["workspace"],
    values: (_name, spec) => ({
      image: "tensorflow/tensorflow",
      command: "tensorboard --logdir /logs --host 0.0.0.0 --port 6006",
      args: "",
      ports: ingress(6006, "tensorboard", spec),
    }),
  },
  { key: "shell", kinds: ["workspace"], values: () => ({ image: "ubuntu", command: "sleep infinity", args: "" }) },
  { key: "sample", kinds: RUNS, values: () => ({ image: "run-ai-demo/quickstart", command: "", args: "" }) },
  { key: "python", kinds: RUNS, values: () => ({ image: "python", command: "python train.py", args: "" }) },
];

export function applied(preset: Preset, name: string, spec: Fields): Fields {
  let next = spec;
  for (const [field, value] of Object.entries(preset.values(name, spec))) next = withValue(next, field, value);
  return next;
}
