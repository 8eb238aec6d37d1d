import { ActionIcon, Menu } from "@mantine/core";
import {
  IconCopy,
  IconDots,
  IconFileText,
  IconLayoutSidebarRight,
  IconPlayerPause,
  IconPlayerPlay,
  IconTerminal2,
  IconTrash,
} from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { isWaiting } from "@/model/status";
import { mayDelete, mayResume, maySuspend, resume, suspend } from "@/model/workloadActions";
import { text } from "@/text/workloads";
import type { Row } from "./reading";
import classes from "./Workloads.module.css";

interface Props {
  row: Row;
  opened: boolean;
  onChange: (opened: boolean) => void;
  onPane: () => void;
  onDelete: () => void;
}

/** What can be done with a workload, from its row. A list has many rows, so the menu itself is made when it is wanted. */
export function RowMenu(props: Props) {
  const [isWanted, want] = useState(false);
  if (props.opened && !isWanted) want(true);
  if (isWanted) return <OpenMenu {...props} />;
  return (
    <button
      type="button"
      className={classes.dots}
      aria-haspopup="menu"
      aria-label={text.actions(props.row.name)}
      onClick={() => props.onChange(true)}
    >
      <IconDots size={16} />
    </button>
  );
}

function OpenMenu({ row, opened, onChange, onPane, onDelete }: Props) {
  const navigate = useNavigate();
  const isHeld = useWritesHeld();
  const mayChange = useMay("workload.update") && !isHeld;
  const mayRemove = useMay("workload.delete") && !isHeld;
  const go = (tab: string) =>
    void navigate({ to: "/workloads/$workload", params: { workload: row.id }, search: { tab } } as never);
  return (
    <Menu opened={opened} onChange={onChange} position="bottom-end" returnFocus>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="sm" aria-label={text.actions(row.name)}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<IconLayoutSidebarRight size={14} />} onClick={onPane}>
          {isWaiting(row) ? text.why : text.pane}
        </Menu.Item>
        <Menu.Item leftSection={<IconFileText size={14} />} onClick={() => go("log")}>
          {text.log}
        </Menu.Item>
        {row.runningPods > 0 && (
          <Menu.Item leftSection={<IconTerminal2 size={14} />} onClick={() => go("terminal")}>
            {text.terminal}
          </Menu.Item>
        )}
        <Menu.Item
          leftSection={<IconCopy size={14} />}
          onClick={() => void navigate({ to: "/submit", search: { clone: row.id } } as never)}
        >
          {text.clone}
        </Menu.Item>
        {(maySuspend(row) || mayResume(row) || mayDelete(row)) && <Menu.Divider />}
        {maySuspend(row) && (
          <Menu.Item
            leftSection={<IconPlayerPause size={14} />}
            disabled={!mayChange}
            onClick={() => void suspend([row.id])}
          >
            {text.suspend}
          </Menu.Item>
        )}
        {mayResume(row) && (
          <Menu.Item
            leftSection={<IconPlayerPlay size={14} />}
            disabled={!mayChange}
            onClick={() => void resume([row.id])}
          >
            {text.resume}
          </Menu.Item>
        )}
        {mayDelete(row) && (
          <Menu.Item leftSection={<IconTrash size={14} />} c="var(--failed)" disabled={!mayRemove} onClick={onDelete}>
            {text.delete}
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
