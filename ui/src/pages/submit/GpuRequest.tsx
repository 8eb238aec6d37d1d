/** How many GPUs: whole ones, a part of one with a picture of the device, or memory. */
import { Button, NumberInput, SegmentedControl, Slider, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { devicesQuery } from "@/api/queries";
import { inWords } from "@/components/specForm/description";
import { Origin } from "@/components/specForm/SpecField";
import { useSpecForm } from "@/components/specForm/SpecForm";
import { bytes } from "@/model/format";
import { type Fields, isEmpty, valueAt } from "@/model/paths";
import { type GpuWay, gpuAmount, gpuText, gpuWayOf, withGpus } from "@/model/submission";
import { text } from "@/text/submit";
import { type Device, deviceOf, quantityBytes } from "./device";
import classes from "./GpuRequest.module.css";

interface Props {
  spec: Fields;
  onSpec: (spec: Fields) => void;
  /** The node pools that the project would use. */
  pools: readonly string[];
}

const FIRST: Record<GpuWay, Fields> = {
  none: { gpu: "0" },
  whole: { gpu: "1" },
  part: { gpu: "0.5" },
  memory: { gpuMemoryRequest: "4G" },
  mig: { migProfile: "1g.5gb" },
};
const WAYS = ["whole", "part", "memory", "none"] as const;
const QUICK = [1, 2, 4, 8];
const GPU_PATHS = [
  "compute.gpu",
  "compute.gpuDevicesRequest",
  "compute.gpuPortionRequest",
  "compute.gpuMemoryRequest",
  "compute.migProfile",
];

export function GpuRequest({ spec, onSpec, pools }: Props) {
  const form = useSpecForm();
  const nodes = useQuery(devicesQuery).data?.nodes ?? [];
  const named = Array.isArray(spec.nodePools) ? spec.nodePools.map(String) : [];
  const device = deviceOf(nodes, named.length > 0 ? named : pools);
  const way = gpuWayOf(spec);
  const bounds = GPU_PATHS.map((path) => form.boundAt(path));
  const origin = bounds.find((each) => each.origin !== undefined && !isEmpty(each.given));
  const locked = bounds.find((each) => each.isLocked);
  const problem = GPU_PATHS.map((path) => form.problemAt(path)).find((each) => each !== undefined);
  const data = [...WAYS, ...(way === "mig" ? (["mig"] as const) : [])].map((value) => ({
    value,
    label: text.gpu.ways[value],
  }));
  if (locked !== undefined || (way === null && origin !== undefined))
    return (
      <div className={classes.gpus} data-field="compute.gpu">
        <span className={classes.label}>{text.gpu.title}</span>
        <p className={classes.given}>
          {text.gpu.given(inWords(origin?.given ?? locked?.given ?? ""), origin?.origin ?? locked?.source ?? "")}
        </p>
        {locked === undefined ? (
          <Button size="compact-sm" onClick={() => onSpec(withGpus(spec, FIRST.whole))}>
            {text.gpu.askMyself}
          </Button>
        ) : (
          <Origin bound={locked} isSaid={false} />
        )}
      </div>
    );
  return (
    <fieldset className={classes.gpus} data-field="compute.gpu">
      <legend className={classes.label}>{text.gpu.title}</legend>
      <SegmentedControl
        data={data}
        value={way ?? "none"}
        onChange={(next) => onSpec(withGpus(spec, FIRST[next as GpuWay]))}
        aria-label={text.gpu.title}
        className={classes.ways}
      />
      <Amount way={way ?? "none"} spec={spec} onSpec={onSpec} device={device} isWrong={problem !== undefined} />
      {problem !== undefined && <p className={classes.error}>{problem}</p>}
      {bounds
        .filter((each) => each.max !== undefined || each.min !== undefined)
        .map((each, number) => (
          <Origin key={number} bound={each} isSaid />
        ))}
    </fieldset>
  );
}

interface AmountProps {
  way: GpuWay;
  spec: Fields;
  onSpec: (spec: Fields) => void;
  device: Device | null;
  isWrong: boolean;
}

function Amount({ way, spec, onSpec, device, isWrong }: AmountProps) {
  const said = valueAt(spec, "compute.gpu");
  if (way === "whole")
    return (
      <div className={classes.row}>
        <NumberInput
          value={typeof said === "string" || typeof said === "number" ? said : (gpuAmount(spec) ?? "")}
          onChange={(next) => onSpec(withGpus(spec, { gpu: String(next) }))}
          min={1}
          error={isWrong}
          aria-label={text.gpu.whole}
          className={classes.number}
          clampBehavior="none"
        />
        {QUICK.map((amount) => (
          <Button
            key={amount}
            size="compact-sm"
            variant={gpuAmount(spec) === amount ? "light" : "default"}
            onClick={() => onSpec(withGpus(spec, { gpu: String(amount) }))}
          >
            {amount}
          </Button>
        ))}
      </div>
    );
  if (way === "part")
    return (
      <Part
        amount={gpuAmount(spec) ?? 0.5}
        onAmount={(next) => onSpec(withGpus(spec, { gpu: gpuText(next) }))}
        device={device}
      />
    );
  if (way === "memory") return <Memory spec={spec} onSpec={onSpec} device={device} isWrong={isWrong} />;
  if (way === "mig")
    return (
      <TextInput
        value={String(valueAt(spec, "compute.migProfile") ?? "")}
        onChange={(event) => onSpec(withGpus(spec, { migProfile: event.currentTarget.value || " " }))}
        aria-label={text.gpu.mig}
        className={classes.number}
      />
    );
  return null;
}

function Part({
  amount,
  onAmount,
  device,
}: {
  amount: number;
  onAmount: (amount: number) => void;
  device: Device | null;
}) {
  const percent = Math.round(amount * 100);
  const memory = device === null ? null : device.memoryMib * 2 ** 20 * amount;
  const name = device?.type ?? text.gpu.unknownDevice;
  return (
    <>
      <Picture percent={percent} />
      <div className={classes.row}>
        <Slider
          className={classes.slider}
          min={5}
          max={95}
          step={5}
          value={percent}
          onChange={(next) => onAmount(next / 100)}
          label={(value) => `${value}%`}
          thumbLabel={text.gpu.partLabel}
        />
        <NumberInput
          value={percent}
          onChange={(next) => typeof next === "number" && next > 0 && next < 100 && onAmount(next / 100)}
          min={1}
          max={99}
          suffix="%"
          aria-label={text.gpu.partLabel}
          className={classes.percent}
        />
      </div>
      <p className={classes.words}>{text.gpu.ofDevice(percent, bytes(memory), name)}</p>
    </>
  );
}

function Memory({ spec, onSpec, device, isWrong }: Omit<AmountProps, "way">) {
  const said = String(valueAt(spec, "compute.gpuMemoryRequest") ?? "");
  const asked = quantityBytes(said);
  const percent = asked === null || device === null ? null : Math.round((asked / (device.memoryMib * 2 ** 20)) * 100);
  return (
    <>
      {percent !== null && <Picture percent={Math.min(100, percent)} />}
      <TextInput
        value={said.trim()}
        onChange={(event) => onSpec(withGpus(spec, { gpuMemoryRequest: event.currentTarget.value || " " }))}
        aria-label={text.gpu.memory}
        description={text.gpu.memoryHint}
        error={isWrong}
        className={classes.number}
      />
      {percent !== null && <p className={classes.words}>{text.gpu.ofMemory(percent, device!.type)}</p>}
    </>
  );
}

/** One device, as on the GPU map: the part that is asked for, and what is left. */
function Picture({ percent }: { percent: number }) {
  return (
    <div className={classes.device} aria-hidden="true">
      <span className={classes.mine} style={{ width: `${percent}%` }}>
        {percent >= 14 ? text.gpu.yours : null}
      </span>
      <span className={classes.rest}>{percent <= 78 ? text.gpu.others : null}</span>
    </div>
  );
}
