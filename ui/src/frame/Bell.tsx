import { ActionIcon, Button, Indicator, NumberInput, Popover } from "@mantine/core";
import { IconAlertTriangle, IconArrowBackUp, IconBell, IconPlayerPlay } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import clsx from "clsx";
import { useState } from "react";
import { usePreference, usePreferencesKnown } from "@/api/preferences";
import { useMay } from "@/api/queries";
import { Moment } from "@/components/Moment";
import { text } from "@/text/bell";
import classes from "./Bell.module.css";
import { allSeen, type BellGroup, isUnread, type Notice, type Seen } from "./bellEvents";
import { useNotices } from "./bellNotices";

const GROUPS: readonly BellGroup[] = ["attention", "lost", "started"];
const IDLE_FROM = 4;
const SHOWN = 12;

/** Notifications of the reader's workloads and, for administrators, of the pool. */
export function Bell() {
  const [isOpen, setOpen] = useState(false);
  const [idleFrom, setIdleFrom] = usePreference<number>("bell.idleFrom", IDLE_FROM);
  const [seen, setSeen] = usePreference<Seen>("bell.seen", {});
  const isKnown = usePreferencesKnown();
  const { notices, error } = useNotices(idleFrom);
  const isAdministrator = useMay("node.mark");
  const now = Date.now();
  const unread = isKnown ? notices.filter((each) => isUnread(each, seen, now)) : [];
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-end" offset={10} width={400} shadow="md" trapFocus>
      <Indicator label={unread.length > 99 ? "99+" : unread.length} size={16} disabled={unread.length === 0} offset={4}>
        <Popover.Target>
          <ActionIcon size={34} onClick={() => setOpen(!isOpen)} aria-label={text.open(unread.length)}>
            <IconBell size={18} stroke={1.6} />
          </ActionIcon>
        </Popover.Target>
      </Indicator>
      <Popover.Dropdown p={0} aria-label={text.title} className={classes.panel}>
        <div className={classes.head}>
          <h2>{text.title}</h2>
          {unread.length > 0 && (
            <Button size="compact-xs" variant="subtle" onClick={() => setSeen(allSeen(notices, now))}>
              {text.markRead}
            </Button>
          )}
        </div>
        <div className={classes.list}>
          {error !== null && <p className={classes.nothing}>{text.failed}</p>}
          {error === null && notices.length === 0 && <p className={classes.nothing}>{text.nothing}</p>}
          {GROUPS.map((group) => (
            <Group
              key={group}
              group={group}
              notices={notices.filter((each) => each.group === group).slice(0, SHOWN)}
              isUnread={(each) => unread.includes(each)}
              onOpen={() => setOpen(false)}
            />
          ))}
        </div>
        <div className={classes.foot}>
          {isAdministrator && (
            <NumberInput
              size="xs"
              label={text.idleFrom}
              value={idleFrom}
              min={1}
              max={100_000}
              allowDecimal={false}
              onChange={(value) => typeof value === "number" && value >= 1 && setIdleFrom(value)}
              classNames={{ root: classes.idle }}
            />
          )}
          <Link to="/decisions" onClick={() => setOpen(false)}>
            {text.all}
          </Link>
          <Link to="/profile" onClick={() => setOpen(false)}>
            {text.elsewhere}
          </Link>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}

const ICONS = { attention: IconAlertTriangle, lost: IconArrowBackUp, started: IconPlayerPlay };

interface GroupProps {
  group: BellGroup;
  notices: readonly Notice[];
  isUnread: (notice: Notice) => boolean;
  onOpen: () => void;
}

function Group({ group, notices, isUnread: isNew, onOpen }: GroupProps) {
  const Icon = ICONS[group];
  if (notices.length === 0) return null;
  return (
    <section aria-label={text.groups[group]}>
      <h3 className={classes.group}>{text.groups[group]}</h3>
      <ul className={classes.notices}>
        {notices.map((each) => (
          <li key={each.key}>
            <Link
              to={each.link.path as never}
              search={(each.link.search ?? {}) as never}
              className={clsx(classes.notice, isNew(each) && classes.unread)}
              onClick={onOpen}
            >
              <Icon size={16} stroke={1.6} className={classes[group]} aria-hidden="true" />
              <span className={classes.words}>
                <span className={classes.title}>
                  {each.title}
                  {isNew(each) && <span className="visually-hidden">{`, ${text.unread}`}</span>}
                </span>
                <span className={classes.detail} title={each.detail}>
                  {each.detail}
                </span>
              </span>
              {each.at !== null && (
                <span className={classes.at}>
                  <Moment at={each.at} />
                </span>
              )}
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
