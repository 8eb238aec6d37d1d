/** The GPUs of a node: who holds which part, and what was last measured of each. */
import { Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { api, got, type Schema } from "@/api/client";
import { ProjectDot } from "@/components/ProjectName";
import { Loading } from "@/components/states";
import { bytes, duration, percent, UNKNOWN } from "@/model/format";
import table from "@/pages/projects/ProjectPage.module.css";
import { Warning } from "@/pages/projects/Warning";
import { text } from "@/text/nodes";
import classes from "./nodes.module.css";

type Node = Schema<"NodeAnswer">;

/** What was last measured of a node's devices. */
export function useMeasuredNode(node: Pick<Node, "name" | "clusterUuid">) {
  return useQuery({
    queryKey: ["measured", "node", node.name, node.clusterUuid],
    queryFn: async () => {
      const filterBy = `name==${node.name},clusterUuid==${node.clusterUuid}`;
      const page = await got(
        api.GET("/api/v1/nodes", { params: { query: { filterBy, measured: "devices", limit: 1 } } }),
      );
      return page.nodes[0] ?? null;
    },
  });
}

function useHolders(node: Pick<Node, "name" | "clusterUuid">) {
  return useQuery({
    queryKey: ["devices", "node", node.name, node.clusterUuid],
    queryFn: () =>
      got(
        api.GET("/api/v1/devices", {
          params: { query: { filterBy: `name==${node.name},clusterId==${node.clusterUuid}` } },
        }),
      ),
  }).data;
}

interface Holder {
  id: string | null;
  name: string;
  project: string;
  part: number;
}

/** Who holds each device, by its number. */
export function holdersOf(page: Schema<"DevicePage"> | undefined): Map<number, Holder[]> {
  const found = new Map<number, Holder[]>();
  const node = page?.nodes[0];
  for (const [workload, milli, devices] of [...(node?.holders ?? []), ...(node?.leaving ?? [])])
    for (const device of devices) {
      const holder: Holder = {
        id: workload < 0 ? null : page!.workloads.ids[workload]!,
        name: workload < 0 ? text.detail.hidden : page!.workloads.names[workload]!,
        project: workload < 0 ? "" : page!.projects[page!.workloads.projects[workload]!]!,
        part: milli / 1000,
      };
      found.set(device, [...(found.get(device) ?? []), holder]);
    }
  return found;
}

export function DeviceTable({ node }: { node: Node }) {
  const query = useMeasuredNode(node);
  const holders = holdersOf(useHolders(node) as Schema<"DevicePage"> | undefined);
  if (query.data === undefined) return <Loading height={200} />;
  const info = node.gpuInfo;
  if (info.gpuCount === 0) return <p>{text.detail.noDevices}</p>;
  const devices = new Map(query.data?.measured?.devices?.map((each) => [each.index, each]));
  const { detail } = text;
  const headers = [
    detail.index,
    detail.holders,
    detail.utilization,
    detail.memory,
    detail.memoryUtil,
    detail.idle,
    detail.temperature,
    detail.power,
    detail.clock,
    detail.errors,
  ];
  return (
    <>
      {(info.withheld ?? []).length > 0 && (
        <Warning>{text.withheldWhy(info.withheld!.join(", "), info.withheldBecause)}</Warning>
      )}
      <div className={table.scroll}>
        <table className={table.table}>
          <thead>
            <tr>
              {headers.map((each, number) => (
                <th key={each} scope="col" className={number > 1 ? table.number : undefined}>
                  {each}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {Array.from({ length: info.gpuCount }, (_, index) => (
              <DeviceRow
                key={index}
                index={index}
                measured={devices.get(index)}
                holders={holders.get(index) ?? []}
                totalMib={info.gpuMemoryMib}
                isWithheld={info.withheld?.includes(index) ?? false}
              />
            ))}
          </tbody>
        </table>
      </div>
      {info.simulated && <p className={classes.note}>{detail.simulated}</p>}
    </>
  );
}

interface RowProps {
  index: number;
  measured: Schema<"MeasuredDevice"> | undefined;
  holders: Holder[];
  totalMib: number;
  isWithheld: boolean;
}

function DeviceRow({ index, measured, holders, totalMib, isWithheld }: RowProps) {
  const { detail } = text;
  const total = totalMib * 1024 * 1024;
  const used = measured?.memoryBytes;
  const cells = [
    percent(measured?.utilization),
    used == null ? UNKNOWN : detail.of(bytes(used), bytes(total)),
    used == null || total === 0 ? UNKNOWN : percent((100 * used) / total),
    measured?.idleSeconds == null ? UNKNOWN : duration(measured.idleSeconds * 1000),
    measured?.temperatureCelsius == null ? UNKNOWN : text.celsius(measured.temperatureCelsius),
    measured?.powerWatts == null ? UNKNOWN : text.watts(measured.powerWatts),
    measured?.clockMhz == null ? UNKNOWN : detail.mhz(measured.clockMhz),
    measured?.errors == null ? UNKNOWN : String(measured.errors),
  ];
  return (
    <tr>
      <td>{index}</td>
      <td>
        {isWithheld ? detail.withheld : holders.length === 0 ? detail.free : null}
        {holders.map((each, number) => (
          <div key={number} className={classes.holder}>
            {each.project !== "" && <ProjectDot project={each.project} />}{" "}
            {each.id === null ? (
              each.name
            ) : (
              <Link to="/workloads/$workload" params={{ workload: each.id } as never}>
                {each.name}
              </Link>
            )}
            {each.part < 1 && ` ${each.part.toFixed(2)}`}
          </div>
        ))}
      </td>
      {cells.map((each, number) => (
        <td key={number} className={table.number}>
          {each}
        </td>
      ))}
    </tr>
  );
}

export function DeviceDialog({ node, onClose }: { node: Node | null; onClose: () => void }) {
  return (
    <Modal opened={node !== null} onClose={onClose} size={1040} title={node === null ? "" : text.grid.open(node.name)}>
      {node !== null && <DeviceTable node={node} />}
    </Modal>
  );
}
