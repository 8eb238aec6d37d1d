/** What can be done with a node, for its row and its page. */
import { ActionIcon, Menu } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import { useState } from "react";
import type { Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { text } from "@/text/nodes";
import { DeviceDialog } from "./DeviceTable";
import { DrainDialog } from "./DrainDialog";
import { MarkDialog } from "./MarkDialog";
import { useMark } from "./nodeMarks";
import { cordoned, drained, isDrained, overridesOf } from "./nodeState";

type Node = Schema<"NodeAnswer">;

export interface NodeDialogs {
  drain: (node: Node) => void;
  edit: (node: Node) => void;
  devices: (node: Node) => void;
}

/** The dialogs of a page about nodes, and how to open them. */
export function useNodeDialogs(): [dialogs: NodeDialogs, shown: React.ReactNode] {
  const [draining, setDraining] = useState<Node | null>(null);
  const [editing, setEditing] = useState<Node | null>(null);
  const [devices, setDevices] = useState<Node | null>(null);
  const shown = (
    <>
      <DrainDialog node={draining} onClose={() => setDraining(null)} />
      <MarkDialog node={editing} onClose={() => setEditing(null)} />
      <DeviceDialog node={devices} onClose={() => setDevices(null)} />
    </>
  );
  return [{ drain: setDraining, edit: setEditing, devices: setDevices }, shown];
}

export function NodeMenu({ node, dialogs }: { node: Node; dialogs: NodeDialogs }) {
  const mayMark = useMay("node.mark");
  const isHeld = useWritesHeld();
  const mark = useMark();
  if (!mayMark) return null;
  const { actions } = text;
  const set = (change: Parameters<typeof mark.mutate>[0]["change"], words: string) =>
    mark.mutate({ node, change, words });
  const isCordoned = overridesOf(node).cordoned;
  return (
    <Menu position="bottom-end" withinPortal>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" size="sm" aria-label={text.grid.actions(node.name)}>
          <IconDots size={16} />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {isDrained(node) ? (
          <Menu.Item
            disabled={isHeld}
            onClick={() => set((all) => drained(all, false), actions.done.undrain(node.name))}
          >
            {actions.undrain}
          </Menu.Item>
        ) : (
          <Menu.Item disabled={isHeld} onClick={() => dialogs.drain(node)}>
            {actions.drain}
          </Menu.Item>
        )}
        <Menu.Item
          disabled={isHeld}
          onClick={() =>
            set(
              (all) => cordoned(all, !isCordoned),
              isCordoned ? actions.done.uncordon(node.name) : actions.done.cordon(node.name),
            )
          }
        >
          {isCordoned ? actions.uncordon : actions.cordon}
        </Menu.Item>
        <Menu.Item onClick={() => dialogs.edit(node)}>{actions.edit}</Menu.Item>
        <Menu.Item onClick={() => dialogs.devices(node)}>{text.detail.devices}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
