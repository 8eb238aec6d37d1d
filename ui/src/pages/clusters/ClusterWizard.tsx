/** Adding a cluster: name, where it runs, what starts it, and waiting until it is there. */
import { Button, Loader, Modal, SegmentedControl, Select, Stepper, Textarea, TextInput } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconCircleCheck } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { ApiError, api, got, type Schema } from "@/api/client";
import { clustersQuery } from "@/api/queries";
import { changeStream } from "@/api/stream";
import { useWritesHeld } from "@/api/writes";
import { CodeBlock, CopyIcon } from "@/components/CopyText";
import { Notice } from "@/components/Notice";
import { saveText } from "@/model/download";
import { Warning } from "@/pages/projects/Warning";
import { text } from "@/text/clusters";
import { text as frame } from "@/text/frame";
import classes from "./ClusterWizard.module.css";
import { fileOf, type Installation, isLoopback, type Way } from "./installFiles";

/** A cluster that is not connected yet, and its token if it was just made. */
export interface Joining {
  cluster: Schema<"ClusterAnswer">;
  token: string;
}

interface Props {
  isOpen: boolean;
  /** Begins with starting it; none: with its name. */
  joining?: Joining | undefined;
  onClose: () => void;
}

export function ClusterWizard({ isOpen, joining, onClose }: Props) {
  const isNarrow = useMediaQuery("(max-width: 700px)");
  return (
    <Modal
      opened={isOpen}
      onClose={onClose}
      size={760}
      fullScreen={isNarrow}
      closeOnClickOutside={false}
      title={joining ? text.wizard.titleFor(joining.cluster.name) : text.wizard.title}
    >
      {isOpen && <Steps start={joining} onClose={onClose} />}
    </Modal>
  );
}

type Place = "machine" | "kubernetes";

interface Values extends Omit<Installation, "token"> {
  url: string;
  isSimulated: boolean;
  place: Place;
  /** The certificate itself, for Kubernetes; `ca` is a file on a machine. */
  certificate: string;
  registry: string;
  pullSecret: string;
}

function Steps({ start, onClose }: { start: Joining | undefined; onClose: () => void }) {
  const [joining, setJoining] = useState(start);
  const [step, setStep] = useState(start === undefined ? 0 : 1);
  const [values, setValues] = useState<Values>({
    name: start?.cluster.name ?? "",
    url: start?.cluster.domain ?? "",
    control: location.origin,
    nodes: "2x8:V100-32GB",
    isSimulated: false,
    runtime: "process",
    data: start?.cluster.name ?? "",
    ca: "",
    health: "",
    place: "machine",
    certificate: "",
    registry: "",
    pullSecret: "",
  });
  const change = (some: Partial<Values>) => setValues((now) => ({ ...now, ...some }));
  const { steps } = text.wizard;
  return (
    <>
      <Stepper active={step} size="xs" iconSize={24}>
        <Stepper.Step label={steps.name} />
        <Stepper.Step label={steps.where} />
        <Stepper.Step label={steps.install} />
        <Stepper.Step label={steps.wait} />
      </Stepper>
      {step === 0 && <NameStep values={values} onChange={change} onNext={() => setStep(1)} onClose={onClose} />}
      {step === 1 && (
        <WhereStep
          values={values}
          onChange={change}
          joining={joining}
          onJoining={setJoining}
          onBack={start === undefined && joining === undefined ? () => setStep(0) : undefined}
          onNext={() => setStep(2)}
        />
      )}
      {step === 2 && joining !== undefined && values.place === "machine" && (
        <StartStep values={values} joining={joining} onBack={() => setStep(1)} onNext={() => setStep(3)} />
      )}
      {step === 2 && joining !== undefined && values.place === "kubernetes" && (
        <ApplyStep values={values} joining={joining} onBack={() => setStep(1)} onNext={() => setStep(3)} />
      )}
      {step === 3 && joining !== undefined && (
        <WaitStep cluster={joining.cluster} onBack={() => setStep(2)} onClose={onClose} />
      )}
    </>
  );
}

interface StepProps {
  values: Values;
  onChange: (change: Partial<Values>) => void;
  onNext: () => void;
}

function NameStep({ values, onChange, onNext, onClose }: StepProps & { onClose: () => void }) {
  const known = useQuery(clustersQuery).data?.some((each) => each.name === values.name);
  return (
    <form
      className={classes.step}
      onSubmit={(event) => {
        event.preventDefault();
        onNext();
      }}
    >
      <TextInput
        label={text.wizard.name}
        description={text.wizard.nameHint}
        value={values.name}
        required
        data-autofocus
        onChange={(event) => onChange({ name: event.currentTarget.value, data: event.currentTarget.value })}
        error={known ? text.wizard.nameTaken(values.name) : undefined}
      />
      <TextInput
        label={text.wizard.url}
        description={text.wizard.urlHint}
        value={values.url}
        onChange={(event) => onChange({ url: event.currentTarget.value })}
      />
      <div className={classes.foot}>
        <Button onClick={onClose}>{frame.shared.cancel}</Button>
        <Button type="submit" variant="filled" disabled={values.name.trim() === "" || known === true}>
          {text.wizard.next}
        </Button>
      </div>
    </form>
  );
}

interface WhereProps extends StepProps {
  joining: Joining | undefined;
  onJoining: (joining: Joining) => void;
  onBack: (() => void) | undefined;
}

function WhereStep({ values, onChange, joining, onJoining, onBack, onNext }: WhereProps) {
  const queries = useQueryClient();
  const isHeld = useWritesHeld();
  const create = useMutation({
    mutationFn: () =>
      got(api.POST("/api/v1/clusters", { body: { name: values.name.trim(), domain: values.url.trim(), version: "" } })),
    onSuccess: ({ token, ...cluster }) => {
      void queries.invalidateQueries({ queryKey: ["clusters"] });
      onJoining({ cluster: cluster as Schema<"ClusterAnswer">, token });
      onNext();
    },
  });
  const error = create.error instanceof ApiError ? create.error : null;
  const isPlain = values.control.startsWith("http:") && !isLoopback(values.control);
  return (
    <form
      className={classes.step}
      onSubmit={(event) => {
        event.preventDefault();
        joining === undefined ? create.mutate() : onNext();
      }}
    >
      <TextInput
        label={text.wizard.control}
        description={text.wizard.controlHint}
        value={values.control}
        required
        onChange={(event) => onChange({ control: event.currentTarget.value })}
      />
      {isLoopback(values.control) && <Warning>{text.wizard.loopback}</Warning>}
      {isPlain && <Warning>{text.wizard.plain}</Warning>}
      <SegmentedControl
        value={values.place}
        onChange={(next) => onChange({ place: next as Place })}
        data={Object.entries(text.wizard.places).map(([value, label]) => ({ value, label }))}
      />
      {values.place === "machine" ? (
        <MachineFields values={values} onChange={onChange} />
      ) : (
        <KubernetesFields values={values} onChange={onChange} />
      )}
      {error !== null && (
        <Notice tone="bad">{error.problems.map((each) => each.what).join("; ") || error.message}</Notice>
      )}
      <div className={classes.foot}>
        {onBack !== undefined && <Button onClick={onBack}>{text.wizard.back}</Button>}
        <Button type="submit" variant="filled" loading={create.isPending} disabled={isHeld}>
          {joining === undefined ? text.wizard.create : text.wizard.next}
        </Button>
      </div>
    </form>
  );
}

type FieldsProps = Omit<StepProps, "onNext">;

function MachineFields({ values, onChange }: FieldsProps) {
  return (
    <div className={classes.fields}>
      <Select
        label={text.wizard.gpus}
        data={[
          { value: "machine", label: text.wizard.ownGpus },
          { value: "simulated", label: text.wizard.simulated },
        ]}
        value={values.isSimulated ? "simulated" : "machine"}
        allowDeselect={false}
        onChange={(next) => onChange({ isSimulated: next === "simulated" })}
      />
      {values.isSimulated && (
        <TextInput
          label={text.wizard.nodes}
          description={text.wizard.nodesHint}
          value={values.nodes}
          onChange={(event) => onChange({ nodes: event.currentTarget.value })}
        />
      )}
      <Select
        label={text.wizard.runtime}
        data={Object.entries(text.wizard.runtimes).map(([value, label]) => ({ value, label }))}
        value={values.runtime}
        allowDeselect={false}
        onChange={(runtime) => runtime && onChange({ runtime })}
      />
      <TextInput
        label={text.wizard.data}
        value={values.data}
        onChange={(event) => onChange({ data: event.currentTarget.value })}
      />
      <TextInput
        label={text.wizard.ca}
        description={text.wizard.caHint}
        value={values.ca}
        onChange={(event) => onChange({ ca: event.currentTarget.value })}
      />
      <TextInput
        label={text.wizard.health}
        description={text.wizard.healthHint}
        placeholder="127.0.0.1:8081"
        value={values.health}
        onChange={(event) => onChange({ health: event.currentTarget.value })}
      />
    </div>
  );
}

function KubernetesFields({ values, onChange }: FieldsProps) {
  return (
    <div className={classes.fields}>
      <TextInput
        label={text.wizard.registry}
        description={text.wizard.registryHint}
        placeholder={text.wizard.registryExample}
        value={values.registry}
        onChange={(event) => onChange({ registry: event.currentTarget.value })}
      />
      <TextInput
        label={text.wizard.pullSecret}
        description={text.wizard.pullSecretHint}
        value={values.pullSecret}
        onChange={(event) => onChange({ pullSecret: event.currentTarget.value })}
      />
      <Textarea
        label={text.wizard.ca}
        description={text.wizard.certificateHint}
        placeholder={text.wizard.certificateExample}
        autosize
        minRows={2}
        maxRows={6}
        value={values.certificate}
        onChange={(event) => onChange({ certificate: event.currentTarget.value })}
      />
    </div>
  );
}

interface StartProps {
  values: Values;
  joining: Joining;
  onBack: () => void;
  onNext: () => void;
}

function StartStep({ values, joining, onBack, onNext }: StartProps) {
  const [way, setWay] = useState<Way>("command");
  const installation: Installation = {
    ...values,
    name: joining.cluster.name,
    nodes: values.isSimulated ? values.nodes : "",
    token: joining.token || text.wizard.placeholder,
  };
  const file = fileOf(way, installation);
  return (
    <div className={classes.step}>
      {joining.token === "" ? (
        <Warning>{text.wizard.tokenKnown}</Warning>
      ) : (
        <div>
          <strong>{text.wizard.token}</strong>
          <div className={classes.token}>
            <code>{joining.token}</code>
            <CopyIcon value={joining.token} />
          </div>
          <p className={classes.hint}>{text.wizard.tokenHint}</p>
        </div>
      )}
      <SegmentedControl
        value={way}
        onChange={(next) => setWay(next as Way)}
        data={Object.entries(text.wizard.ways).map(([value, label]) => ({ value, label }))}
      />
      <p className={classes.hint}>{text.wizard.wayHint[way]}</p>
      <CodeBlock>{file.content}</CodeBlock>
      <div className={classes.foot}>
        <Button onClick={onBack}>{text.wizard.back}</Button>
        <Button onClick={() => saveText(file.name, file.content, "text/plain")}>
          {text.wizard.download(file.name)}
        </Button>
        <Button variant="filled" onClick={onNext}>
          {text.wizard.wait}
        </Button>
      </div>
    </div>
  );
}

/** The file is made by the server, from the chart; it has the token in it. */
function ApplyStep({ values, joining, onBack, onNext }: StartProps) {
  const { cluster, token } = joining;
  const body = {
    token,
    controlUrl: values.control.trim().replace(/\/+$/, ""),
    caCertificate: values.certificate.trim() && `${values.certificate.trim()}\n`,
    imageRegistry: values.registry.trim(),
    imagePullSecret: values.pullSecret.trim(),
  };
  const made = useQuery({
    queryKey: ["operator-file", cluster.uuid, body],
    queryFn: () =>
      got(
        api.POST("/api/v1/clusters/{cluster_id}/operator-file", {
          params: { path: { cluster_id: cluster.uuid } },
          body,
        }),
      ),
    enabled: token !== "",
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    retry: false,
  });
  const error = made.error instanceof ApiError ? made.error : null;
  const file = made.data;
  return (
    <div className={classes.step}>
      {token === "" && <Warning>{text.wizard.tokenKnown}</Warning>}
      {error !== null && (
        <Notice tone="bad">{error.problems.map((each) => each.what).join("; ") || error.message}</Notice>
      )}
      {file !== undefined && (
        <>
          <p className={classes.hint}>{text.wizard.applyHint}</p>
          <CodeBlock>{`kubectl apply -f ${file.name}`}</CodeBlock>
          <p className={classes.hint}>{text.wizard.fileHint}</p>
        </>
      )}
      <div className={classes.foot}>
        <Button onClick={onBack}>{text.wizard.back}</Button>
        {file !== undefined && (
          <Button onClick={() => saveText(file.name, file.content, "application/yaml")}>
            {text.wizard.download(file.name)}
          </Button>
        )}
        <Button variant="filled" onClick={onNext}>
          {text.wizard.applied}
        </Button>
      </div>
    </div>
  );
}

interface WaitProps {
  cluster: Schema<"ClusterAnswer">;
  onBack: () => void;
  onClose: () => void;
}

/** A cluster that joins reports its nodes, which the stream announces; its own state it does not. */
function WaitStep({ cluster, onBack, onClose }: WaitProps) {
  const queries = useQueryClient();
  useEffect(
    () =>
      changeStream().listen(
        () => void queries.invalidateQueries({ queryKey: clustersQuery.queryKey }, { cancelRefetch: false }),
      ),
    [queries],
  );
  const now = useQuery({ ...clustersQuery, staleTime: 0 }).data?.find((each) => each.uuid === cluster.uuid);
  const isThere = now?.status.state === "Connected";
  return (
    <div className={classes.step}>
      <div className={classes.state} aria-live="polite" data-state={isThere ? "connected" : "waiting"}>
        {isThere ? (
          <Connected cluster={cluster} />
        ) : (
          <>
            <Loader size="sm" />
            <strong>{text.wizard.waiting}</strong>
            <p className={classes.hint}>{text.wizard.waitingHint}</p>
          </>
        )}
      </div>
      {!isThere && (
        <details>
          <summary>{text.wizard.trouble}</summary>
          <ul className={classes.hint}>
            {text.wizard.troubles.map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        </details>
      )}
      <div className={classes.foot}>
        {!isThere && <Button onClick={onBack}>{text.wizard.back}</Button>}
        <Button variant={isThere ? "filled" : "default"} onClick={onClose}>
          {isThere ? text.wizard.finish : frame.shared.close}
        </Button>
      </div>
    </div>
  );
}

function Connected({ cluster }: { cluster: Schema<"ClusterAnswer"> }) {
  const nodes = useQuery({
    queryKey: ["nodes", "of", cluster.uuid],
    queryFn: () => {
      const filterBy = `clusterId==${cluster.uuid}`;
      return got(api.GET("/api/v1/nodes", { params: { query: { filterBy, limit: 500 } } }));
    },
  }).data?.nodes;
  return (
    <>
      <IconCircleCheck size={32} color="var(--running)" aria-hidden="true" />
      <strong>{text.wizard.connected(cluster.name)}</strong>
      {nodes !== undefined && nodes.length > 0 && (
        <p>
          {text.wizard.found(
            nodes.length,
            nodes.reduce((sum, each) => sum + each.gpuInfo.gpuCount, 0),
          )}
        </p>
      )}
      <Link to="/nodes" search={{ f: [`clusterId==${cluster.uuid}`] } as never}>
        {text.wizard.toNodes}
      </Link>
      <Link to="/projects" search={{ new: 1 } as never}>
        {text.wizard.toProject}
      </Link>
    </>
  );
}
