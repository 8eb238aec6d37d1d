import { Kbd, Modal, Table } from "@mantine/core";
import { text } from "@/text/frame";

export function ShortcutList({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  return (
    <Modal
      opened={opened}
      onClose={onClose}
      title={text.keys}
      size="lg"
      closeButtonProps={{ "aria-label": text.shared.close }}
    >
      <Table>
        <Table.Tbody>
          {text.shortcuts.map(([keys, what]) => (
            <Table.Tr key={keys}>
              <Table.Td style={{ whiteSpace: "nowrap" }}>
                <Kbd>{keys}</Kbd>
              </Table.Td>
              <Table.Td>{what}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Modal>
  );
}
