import { ActionIcon, Button, Group, Menu, TextInput } from "@mantine/core";
import { IconBookmark, IconTrash } from "@tabler/icons-react";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { usePreference } from "@/api/preferences";
import { isFields } from "@/model/paths";
import { text } from "@/text/frame";

interface View {
  name: string;
  search: Record<string, unknown>;
}

const isView = (each: unknown): each is View => {
  const { name, search } = (each ?? {}) as Partial<View>;
  return typeof name === "string" && isFields(search);
};

/** Views of a list that the user has named. They are addresses, so they can be shared as such too. */
export function GridViews({ name }: { name: string }) {
  const [kept, setViews] = usePreference<View[]>(`views.${name}`, []);
  const views = kept.filter(isView);
  const search = useSearch({ strict: false }) as Record<string, unknown>;
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <Button size="xs" leftSection={<IconBookmark size={14} />}>
          {text.shared.views}
        </Button>
      </Menu.Target>
      <Menu.Dropdown miw={240}>
        {views.map((view) => (
          <Group key={view.name} gap={4} wrap="nowrap">
            <Menu.Item onClick={() => void navigate({ to: ".", search: view.search } as never)}>{view.name}</Menu.Item>
            <ActionIcon
              variant="subtle"
              color="gray"
              size="sm"
              aria-label={`${text.shared.delete}: ${view.name}`}
              onClick={() => setViews(views.filter((each) => each.name !== view.name))}
            >
              <IconTrash size={14} />
            </ActionIcon>
          </Group>
        ))}
        {views.length > 0 && <Menu.Divider />}
        <form
          onSubmit={(event) => {
            event.preventDefault();
            const called = typed.trim();
            if (called === "") return;
            setViews([...views.filter((each) => each.name !== called), { name: called, search }]);
            setTyped("");
          }}
        >
          <Group gap={4} p={4} wrap="nowrap">
            <TextInput
              size="xs"
              flex={1}
              maxLength={60}
              value={typed}
              onChange={(event) => setTyped(event.currentTarget.value)}
              placeholder={text.shared.saveView}
              aria-label={text.shared.saveView}
            />
            <Button type="submit" size="xs" disabled={typed.trim() === ""}>
              {text.shared.save}
            </Button>
          </Group>
        </form>
      </Menu.Dropdown>
    </Menu>
  );
}
