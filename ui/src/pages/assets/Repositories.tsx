import { Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { call } from "@/api/client";
import { Loaded } from "@/components/states";
import { text } from "@/text/assets";
import { text as shared } from "@/text/frame";
import classes from "./Assets.module.css";
import type { AssetRow } from "./rows";

const PATH = "/api/v1/asset/registries";

/** What a registry says that it has. */
export function Repositories({ registry, onClose }: { registry: AssetRow; onClose: () => void }) {
  const query = useQuery({
    queryKey: ["assets", "repositories", registry.id],
    queryFn: () => call<{ repositories?: unknown[] }>("GET", `${PATH}/${registry.id}/repositories`),
    retry: false,
    gcTime: 0,
  });
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={text.repositoriesOf(registry.name)}
      closeButtonProps={{ "aria-label": shared.shared.close }}
    >
      <Loaded query={query} rows={4}>
        {(found) => {
          const names = (found.repositories ?? []).map(nameOf);
          if (names.length === 0) return <p>{text.noRepositories}</p>;
          return (
            <ul className={classes.repositories}>
              {names.map((each) => (
                <Repository key={each} registry={registry.id} name={each} />
              ))}
            </ul>
          );
        }}
      </Loaded>
    </Modal>
  );
}

const nameOf = (each: unknown): string =>
  typeof each === "object" && each !== null && "name" in each ? String(each.name) : String(each);

function Repository({ registry, name }: { registry: string; name: string }) {
  const [isOpen, open] = useState(false);
  const query = useQuery({
    queryKey: ["assets", "tags", registry, name],
    queryFn: () =>
      call<{ tags?: unknown[] }>("GET", `${PATH}/${registry}/repositories/tags?repository=${encodeURIComponent(name)}`),
    enabled: isOpen,
    retry: false,
  });
  return (
    <li>
      <button type="button" className={classes.name} aria-expanded={isOpen} onClick={() => open(!isOpen)}>
        {name}
      </button>
      {isOpen && (
        <Loaded query={query} rows={1}>
          {(found) => <p className={classes.hint}>{(found.tags ?? []).map(nameOf).join(", ")}</p>}
        </Loaded>
      )}
    </li>
  );
}
