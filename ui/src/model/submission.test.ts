import { describe, expect, it } from "vitest";
import { isEmpty, merged, pruned, valueAt, withValue } from "./paths";
import { shellQuote, shellWords } from "./shell";
import {
  alternativesTo,
  bodyOf,
  commandLineOf,
  type Draft,
  formOf,
  goDuration,
  gpuWayOf,
  jobFileOf,
  KINDS,
  kindOf,
  nameFrom,
  nextName,
  renamed,
  specOf,
  withGpus,
} from "./submission";

const draft = (given: Partial<Draft>): Draft => ({
  kind: "training",
  project: "team-a",
  name: "t1",
  isNameSuggested: false,
  spec: {},
  more: "",
  waitAnyway: false,
  suspended: false,
  ...given,
});
const command = (spec: Draft["spec"], given: Partial<Draft> = {}) => commandLineOf(draft({ spec, ...given })).text;

describe("paths", () => {
  it("sets, reads and removes values, and leaves no empty objects behind", () => {
    const set = withValue({ image: "a" }, "compute.gpu", "0.5");
    expect(valueAt(set, "compute.gpu")).toBe("0.5");
    expect(withValue(set, "compute.gpu", "")).toEqual({ image: "a" });
    expect(withValue({ a: { b: 1, c: 2 } }, "a.b", undefined)).toEqual({ a: { c: 2 } });
  });
  it("keeps false and 0, which are values", () => {
    expect(withValue({}, "a.b", false)).toEqual({ a: { b: false } });
    expect(isEmpty(0)).toBe(false);
    expect(pruned({ a: 0, b: false, c: "", d: [], e: {}, f: [{ name: "x", value: "" }] })).toEqual({
      a: 0,
      b: false,
      f: [{ name: "x" }],
    });
  });
  it("merges objects and replaces lists", () => {
    expect(merged({ a: { b: 1, c: [1] } }, { a: { c: [2] } })).toEqual({ a: { b: 1, c: [2] } });
  });
});

describe("shell words", () => {
  it("splits as a shell does", () => {
    expect(shellWords(`bash -c 'echo "$X"; ls' a\\ b "c \\" d" ""`)).toEqual([
      "bash",
      "-c",
      'echo "$X"; ls',
      "a b",
      'c " d',
      "",
    ]);
    expect(shellWords("echo 'open")).toBeNull();
  });
  it("gives every word back", () => {
    for (const word of ["plain", "a b", "it's", "$HOME", "*", "", "--x=1,2", 'q"q', "a\nb"])
      expect(shellWords(shellQuote(word))).toEqual([word]);
  });
});

describe("requests", () => {
  it("sends no fields of other kinds, and nothing empty", () => {
    const spec = { image: "python", completions: 4, servingPort: { container: 80 }, numWorkers: 2, labels: {} };
    expect(specOf(draft({ spec }))).toEqual({ image: "python" });
    expect(specOf(draft({ spec, kind: "sweep" }))).toEqual({ image: "python", completions: 4 });
    expect(specOf(draft({ spec, kind: "inference" }))).toEqual({ image: "python", servingPort: { container: 80 } });
  });
  it("merges more fields over the form", () => {
    expect(bodyOf(draft({ spec: { compute: { gpu: "1" } }, name: "" }), { compute: { cpuCoreRequest: 2 } })).toEqual({
      projectId: "team-a",
      spec: { compute: { gpu: "1", cpuCoreRequest: 2 } },
      source: "Control-plane",
    });
  });
  it("edits labels as rows, and sends them by name", () => {
    const form = formOf({ labels: { team: "vision" } });
    expect(form).toEqual({ labels: [{ name: "team", value: "vision" }] });
    expect(specOf(draft({ spec: { labels: [...(form.labels as object[]), {}] } }))).toEqual({
      labels: { team: "vision" },
    });
  });
  it("says that a master of its own differs", () => {
    const spec = { image: "python", masterSpec: { compute: { gpu: "1" } } };
    expect(specOf(draft({ kind: "distributed", spec })).masterSpecSameAsWorker).toBe(false);
  });
  it("writes job files", () => {
    expect(jobFileOf(draft({ kind: "sweep", spec: { image: "python", completions: 2 } }))).toEqual({
      kind: "Training",
      name: "t1",
      projectId: "team-a",
      spec: { image: "python", completions: 2 },
    });
  });
  it("tells sweeps from trainings", () => {
    expect(kindOf("Training", {})).toBe("training");
    expect(kindOf("Training", { array: { indices: "0-3" } })).toBe("sweep");
    expect(kindOf("Inference", {})).toBe("inference");
  });
});

describe("names", () => {
  it("are made valid and counted on", () => {
    expect(nameFrom("My Job!")).toBe("my-job");
    expect(nameFrom("1-x")).toBe("x");
    expect(nextName("train")).toBe("train-2");
    expect(nextName("train-9")).toBe("train-10");
    expect(nextName(`${"a".repeat(49)}`)).toHaveLength(49);
  });
});

describe("renaming", () => {
  it("takes the address of a notebook along, and leaves other arguments", () => {
    const notebook = draft({ name: "a", spec: { args: "--NotebookApp.base_url=a" } });
    expect(renamed(notebook, "b", false)).toMatchObject({ name: "b", spec: { args: "--NotebookApp.base_url=b" } });
    expect(renamed(draft({ name: "a", spec: { args: "x" } }), "b", false).spec.args).toBe("x");
  });
});

describe("GPUs", () => {
  it("are asked for in one way only", () => {
    const spec = withGpus({ compute: { gpu: "2", cpuCoreRequest: 1 } }, { gpuMemoryRequest: "4G" });
    expect(spec).toEqual({ compute: { cpuCoreRequest: 1, gpuMemoryRequest: "4G" } });
    expect(gpuWayOf(spec)).toBe("memory");
    expect(gpuWayOf({ compute: { gpu: "0.5" } })).toBe("part");
    expect(gpuWayOf({ compute: { gpu: "0" } })).toBe("none");
    expect(gpuWayOf({})).toBeNull();
  });
  it("has smaller requests as alternatives, the largest first, and few of them", () => {
    const found = alternativesTo("training", { compute: { gpu: "8" } }, []);
    expect(found.map((each) => each.value)).toEqual([7, 4, 2, 1]);
    expect(alternativesTo("training", { compute: { gpu: "0.6" } }, []).map((each) => each.value)).toEqual([
      0.5, 0.25, 0.1,
    ]);
    const workspace = alternativesTo("workspace", { compute: { gpu: "1" } }, ["a100"]);
    expect(workspace.map((each) => each.what)).toEqual(["preemptible", "gpus", "gpus", "gpus", "pool"]);
    const gang = alternativesTo("distributed", { numWorkers: 64, compute: { gpu: "8" } }, ["x", "y"]);
    expect(gang).toHaveLength(8);
  });
});

describe("the command", () => {
  it("is that of the NetApp jobs", () => {
    expect(command({ image: "quickstart", compute: { gpu: "1" } })).toBe(
      "runai submit t1 -p team-a -i quickstart -g 1",
    );
    const notebook = {
      image: "jupyter/base-notebook",
      compute: { gpu: "1" },
      command: "start-notebook.sh",
      args: "--NotebookApp.base_url=team-a-test-ingress",
      ports: [{ container: 8888, serviceType: "Ingress" }],
    };
    expect(command(notebook, { kind: "workspace", name: "a-1-1-jupyter" })).toBe(
      "runai submit a-1-1-jupyter -p team-a --interactive -i jupyter/base-notebook -g 1 --port 8888 --service-type ingress --command -- start-notebook.sh --NotebookApp.base_url=team-a-test-ingress",
    );
  });
  it.each([
    [{ template: "base" }, "--template base"],
    [
      {
        assets: { environment: "e", compute: "c", datasources: ["d", { id: "x", overrides: { containerPath: "/y" } }] },
      },
      "--environment-asset e --compute-resource c --data-source d --data-source x:/y",
    ],
    [{ compute: { gpuMemoryRequest: "4G" } }, "--gpu-memory 4G"],
    [{ compute: { migProfile: "1g.5gb" } }, "--mig-profile 1g.5gb"],
    [
      { compute: { cpuCoreRequest: 2, cpuCoreLimit: 4, cpuMemoryRequest: "1G", cpuMemoryLimit: "2G" } },
      "--cpu 2 --cpu-limit 4 --memory 1G --memory-limit 2G",
    ],
    [
      { compute: { largeShmRequest: true, extendedResources: [{ resource: "nic", quantity: 2 }] } },
      "--large-shm --extended-resource nic=2",
    ],
    [{ imagePullPolicy: "Never" }, "--image-pull-policy Never"],
    [{ workingDir: "/w", pythonEnv: "/opt/env" }, "--working-dir /w --python-env /opt/env"],
    [
      {
        environmentVariables: [
          { name: "A", value: "x y" },
          { name: "B", credential: { name: "hf", key: "token" } },
          { name: "C", configMap: { name: "m", key: "k" } },
          { name: "D" },
        ],
      },
      "-e 'A=x y' -e B=SECRET:hf,token -e C=CONFIGMAP:m,k -e D=",
    ],
    [{ storage: { hostPath: [{ path: "/a", mountPath: "/b", readOnly: true }] } }, "-v /a:/b:ro"],
    [{ storage: { pvc: [{ claimName: "c", path: "/d" }] } }, "--pvc c:/d"],
    [
      {
        storage: {
          pvc: [
            {
              existingPvc: false,
              claimName: "n",
              path: "/d",
              ephemeral: true,
              claimInfo: { size: "1G", accessMode: "rwm", storageClass: "local" },
            },
          ],
        },
      },
      "--new-pvc claimname=n,storageclass=local,size=1G,path=/d,accessmode-rwm,ephemeral",
    ],
    [
      {
        storage: {
          git: [{ repository: "https://g.example/r", branch: "main", revision: "v1", path: "/c", credential: "g" }],
        },
      },
      "--git-sync source=https://g.example/r,branch=main,rev=v1,target=/c,secret=g",
    ],
    [{ storage: { configMapVolume: [{ name: "m", mountPath: "/m" }] } }, "--configmap-volume name=m,path=/m"],
    [{ storage: { secretVolume: [{ name: "s", mountPath: "/s" }] } }, "--secret-volume name=s,path=/s"],
    [
      { ports: [{ container: 80, external: 30080, serviceType: "NodePort" }] },
      "--port 30080:80 --service-type nodeport",
    ],
    [{ nodePools: ["a", "b"], nodeType: "dgx" }, "--node-pools a,b --node-type dgx"],
    [
      {
        nodeAffinityPreferred: [
          { weight: 1, preference: { matchExpressions: [{ key: "k", operator: "In", values: ["v"] }] } },
        ],
      },
      "--prefer-node k=v",
    ],
    [
      { tolerations: [{ operator: "Exists", key: "k", effect: "NoSchedule" }] },
      "--toleration operator=Exists,key=k,effect=NoSchedule",
    ],
    [
      { topology: { name: "t", required: "rack", preferred: "block" } },
      "--topology t --required-pod-topology-key rack --preferred-pod-topology-key block",
    ],
    [{ priorityClass: "train" }, "--priority train"],
    [
      {
        deadlineSeconds: 7200,
        backoffLimit: 0,
        terminationGracePeriodSeconds: 90,
        autoDeletionTimeAfterCompletionSeconds: 0,
      },
      "--time-limit 2h --backoff-limit 0 --grace-period 90 --ttl-after-finish 0s",
    ],
    [{ after: ["a", "b:any"] }, "--after a --after b:any"],
    [
      { security: { runAsUser: true, capabilities: ["NET_ADMIN"], hostIpc: true, hostNetwork: true } },
      "--run-as-user --add-capability NET_ADMIN --host-ipc --host-network",
    ],
    [{ security: { allowPrivilegeEscalation: false } }, "--no-allow-privilege-escalation"],
    [{ labels: { a: "b" }, annotations: { c: "d e" } }, "-l a=b -a 'c=d e'"],
    [{ stdin: true, tty: true }, "--stdin --tty"],
    [{ args: ["python", "-c", "print(1)"] }, "-- python -c 'print(1)'"],
  ])("says %j", (spec, said) => {
    const found = commandLineOf(draft({ spec }));
    expect(found.text).toBe(`runai submit t1 -p team-a ${said}`);
    expect(found.unsaid).toEqual([]);
  });
  it("says what belongs to a kind", () => {
    expect(command({ preemptibility: "preemptible" }, { kind: "workspace" })).toBe(
      "runai submit t1 -p team-a --interactive --preemptible",
    );
    const sweep = {
      array: { indices: "0-9", parameters: [{ name: "lr", values: ["0.1", "0.2"] }] },
      completions: 4,
      parallelism: 2,
    };
    expect(command(sweep, { kind: "sweep" })).toBe(
      "runai submit t1 -p team-a --array 0-9 --for lr=0.1,0.2 --completions 4 --parallelism 2",
    );
    expect(command({ servingPort: { container: 8000 }, autoscaling: { minReplicas: 2 } }, { kind: "inference" })).toBe(
      "runai submit t1 -p team-a --inference --port 8000 --replicas 2",
    );
    const gang = {
      distributedFramework: "MPI",
      numWorkers: 2,
      slotsPerWorker: 2,
      cleanPodPolicy: "All",
      masterNoPvcs: true,
      masterSpec: { compute: { gpu: "1" }, args: "a 'b c'", environmentVariables: [{ name: "A", value: "1" }] },
    };
    expect(command(gang, { kind: "distributed" })).toBe(
      `runai submit-dist mpi t1 -p team-a --workers 2 --slots-per-worker 2 --clean-pod-policy All --master-no-pvcs --master-gpu 1 --master-args ${shellQuote("a 'b c'")} --master-environment A=1`,
    );
    const elastic = { minReplicas: 1, maxReplicas: 3, noMaster: true };
    expect(command(elastic, { kind: "distributed" })).toBe(
      "runai submit-dist pytorch t1 -p team-a --min-replicas 1 --max-replicas 3 --no-master",
    );
  });
  it("names what no flag says", () => {
    const spec = { storage: { emptyDirVolume: [{ path: "/x" }] }, ports: [{ container: 80 }], restartPolicy: "Never" };
    expect(commandLineOf(draft({ spec, suspended: true })).unsaid).toEqual([
      "storage.emptyDirVolume",
      "restartPolicy",
      "suspended",
    ]);
  });
  it("survives values of any form: the server says what is wrong with them", () => {
    const odd = [5, "x", true, ["a", 1], { a: { b: 1 } }, [{}], [[]]];
    const paths =
      "labels ports storage storage.pvc environmentVariables array array.parameters nodePools after assets assets.datasources tolerations nodeAffinityPreferred security.capabilities masterSpec command args deadlineSeconds".split(
        " ",
      );
    for (const path of paths)
      for (const value of odd)
        for (const kind of KINDS) {
          const made = commandLineOf(draft({ kind, spec: withValue({}, path, value) }), withValue({}, path, value));
          expect(made.text).toMatch(/^runai submit/);
        }
  });
  it("waits anyway when that was chosen", () => {
    expect(command({}, { waitAnyway: true })).toBe("runai submit t1 -p team-a --wait-anyway");
  });
  it("writes durations as the command takes them", () => {
    expect([0, 59, 60, 5400, 3600].map(goDuration)).toEqual(["0s", "59s", "1m", "90m", "1h"]);
  });
});
