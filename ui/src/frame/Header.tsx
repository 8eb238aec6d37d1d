import { ActionIcon, Avatar, Button, Menu, SegmentedControl, useMantineColorScheme } from "@mantine/core";
import {
  IconBook2,
  IconBox,
  IconChevronDown,
  IconKeyboard,
  IconLifebuoy,
  IconLogout,
  IconPlus,
  IconTerminal2,
  IconUser,
} from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { clustersQuery, useMe } from "@/api/queries";
import { text } from "@/text/frame";
import { Bell } from "./Bell";
import { chooseCluster, useChosenCluster } from "./cluster";
import { Mark } from "./Mark";
import { Finder } from "./Palette";
import classes from "./Shell.module.css";
import { LiveMark } from "./StaleBanner";
import { signOut } from "./signOut";

export function Header({ onKeys, isNarrow }: { onKeys: () => void; isNarrow: boolean }) {
  return (
    <header className={classes.header}>
      {isNarrow && <Mark />}
      <ClusterChoice />
      <Finder isNarrow={isNarrow} />
      <span className={classes.space} />
      <LiveMark />
      <Bell />
      {!isNarrow && (
        <Button component={Link} to="/submit" variant="filled" leftSection={<IconPlus size={16} />}>
          {text.submit}
        </Button>
      )}
      <UserMenu onKeys={onKeys} />
    </header>
  );
}

/** Only where there is a choice. */
function ClusterChoice() {
  const clusters = useQuery(clustersQuery).data ?? [];
  const chosen = useChosenCluster();
  if (clusters.length < 2) return null;
  return (
    <Menu position="bottom-start">
      <Menu.Target>
        <Button
          leftSection={<IconBox size={16} />}
          rightSection={<IconChevronDown size={14} />}
          aria-label={text.cluster}
        >
          {chosen?.name ?? text.allClusters}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item onClick={() => chooseCluster(null)}>{text.allClusters}</Menu.Item>
        {clusters.map((each) => (
          <Menu.Item
            key={each.uuid}
            onClick={() => chooseCluster(each.uuid)}
            rightSection={<small>{each.status.state}</small>}
          >
            {each.name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function UserMenu({ onKeys }: { onKeys: () => void }) {
  const me = useMe();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const initials = me?.username.slice(0, 2) ?? "";
  return (
    <Menu position="bottom-end" width={250}>
      <Menu.Target>
        <ActionIcon variant="transparent" radius="xl" aria-label={`${initials} ${text.userMenu}`}>
          <Avatar size={28} radius="xl" color="gray">
            {initials}
          </Avatar>
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>{me?.username}</Menu.Label>
        <Menu.Item component={Link} to="/profile" leftSection={<IconUser size={16} />}>
          {text.profile}
        </Menu.Item>
        <Menu.Item component={Link} to="/command-line" leftSection={<IconTerminal2 size={16} />}>
          {text.commandLine}
        </Menu.Item>
        <Menu.Item component="a" href="/docs" leftSection={<IconBook2 size={16} />}>
          {text.apiDocs}
        </Menu.Item>
        <Menu.Item component={Link} to="/welcome" leftSection={<IconLifebuoy size={16} />}>
          {text.help}
        </Menu.Item>
        <Menu.Item onClick={onKeys} leftSection={<IconKeyboard size={16} />}>
          {text.keys}
        </Menu.Item>
        <Menu.Divider />
        <Menu.Label>{text.theme}</Menu.Label>
        <SegmentedControl
          size="xs"
          fullWidth
          mx={8}
          mb={8}
          value={colorScheme}
          onChange={(value) => setColorScheme(value as "light" | "dark" | "auto")}
          data={[
            { value: "light", label: text.light },
            { value: "dark", label: text.dark },
            { value: "auto", label: text.auto },
          ]}
          aria-label={text.theme}
        />
        <Menu.Divider />
        <Menu.Item onClick={signOut} leftSection={<IconLogout size={16} />}>
          {text.signOut}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
