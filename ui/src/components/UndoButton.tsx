import { Button, Group } from "@mantine/core";

export function UndoButton({ message, label, onUndo }: { message: string; label: string; onUndo: () => void }) {
  return (
    <Group justify="space-between" wrap="nowrap">
      <span>{message}</span>
      <Button size="compact-sm" onClick={onUndo}>
        {label}
      </Button>
    </Group>
  );
}
