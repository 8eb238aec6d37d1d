import { ActionIcon, Button, Menu } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import {
  IconChevronDown,
  IconCopy,
  IconExternalLink,
  IconPencil,
  IconPlayerPause,
  IconPlayerPlay,
  IconTrash,
} from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { mayDelete, mayResume, maySuspend, remove, resume, suspend } from "@/model/workloadActions";
import { isWeb, lastPart } from "@/pages/workloads/WorkloadLinks";
import { text } from "@/text/workload";
import { EditDrawer } from "./EditDrawer";
import type { Workload } from "./queries";

const words = text.actions;

interface ActionProps {
  label: string;
  icon: ReactNode;
  onClick: () => void;
  disabled?: boolean;
  /** Deletes something. */
  isRed?: boolean;
}

/** A button with its word; on a narrow screen only its icon, large enough to touch. */
function Action({ label, icon, onClick, disabled = false, isRed = false }: ActionProps) {
  const isNarrow = useMediaQuery("(max-width: 700px)");
  const colour = isRed ? { c: "var(--failed)" } : {};
  if (isNarrow)
    return (
      <ActionIcon size={44} aria-label={label} title={label} disabled={disabled} onClick={onClick} {...colour}>
        {icon}
      </ActionIcon>
    );
  return (
    <Button leftSection={icon} disabled={disabled} onClick={onClick} {...colour}>
      {label}
    </Button>
  );
}

export function WorkloadActions({ workload }: { workload: Workload }) {
  const [isEditing, setEditing] = useState(false);
  const [isLeaving, setLeaving] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const navigate = useNavigate();
  const isHeld = useWritesHeld();
  const mayChange = useMay("workload.update") && !isHeld && !isBusy;
  const mayRemove = useMay("workload.delete") && !isHeld;
  const once = (action: (ids: string[]) => Promise<void>) => {
    setBusy(true);
    void action([workload.id]).finally(() => setBusy(false));
  };
  const erase = () => {
    setLeaving(true);
    remove([workload.id], workload.name, () => setLeaving(false));
  };
  const clone = () => void navigate({ to: "/submit", search: { clone: workload.id } } as never);
  return (
    <>
      <Connect urls={(workload.urls ?? []).filter(isWeb)} />
      <Action label={words.clone} icon={<IconCopy size={16} />} onClick={clone} />
      {mayDelete(workload) && (
        <Action
          label={words.edit}
          icon={<IconPencil size={16} />}
          disabled={!mayChange}
          onClick={() => setEditing(true)}
        />
      )}
      {maySuspend(workload) && (
        <Action
          label={words.suspend}
          icon={<IconPlayerPause size={16} />}
          disabled={!mayChange}
          onClick={() => once(suspend)}
        />
      )}
      {mayResume(workload) && (
        <Action
          label={words.resume}
          icon={<IconPlayerPlay size={16} />}
          disabled={!mayChange}
          onClick={() => once(resume)}
        />
      )}
      {mayDelete(workload) && (
        <Action
          label={words.delete}
          icon={<IconTrash size={16} />}
          isRed
          disabled={!mayRemove || isLeaving}
          onClick={erase}
        />
      )}
      <EditDrawer workload={workload} opened={isEditing} onClose={() => setEditing(false)} />
    </>
  );
}

/** Its tools, through the gateway, which asks who the reader is. */
export function Connect({ urls }: { urls: string[] }) {
  const [first] = urls;
  if (first === undefined) return null;
  if (urls.length === 1)
    return (
      <Button
        leftSection={<IconExternalLink size={16} />}
        component="a"
        href={first}
        target="_blank"
        rel="noopener noreferrer"
        title={first}
      >
        {words.connectOne}
      </Button>
    );
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button leftSection={<IconExternalLink size={16} />} rightSection={<IconChevronDown size={14} />}>
          {words.connectOne}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {urls.map((url) => (
          <Menu.Item key={url} component="a" href={url} target="_blank" rel="noopener noreferrer">
            {lastPart(url)}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
