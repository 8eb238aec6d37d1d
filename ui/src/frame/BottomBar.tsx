import { Drawer } from "@mantine/core";
import { IconHome, IconLayoutGrid, IconListDetails, IconMenu2, IconPlus } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useMe } from "@/api/queries";
import { text } from "@/text/frame";
import { menuFor } from "./pages";
import classes from "./Shell.module.css";

const PLACES = [
  { to: "/", label: text.pages.overview, icon: IconHome },
  { to: "/map", label: text.pages.mapShort, icon: IconLayoutGrid },
  { to: "/submit", label: text.submit, icon: IconPlus },
  { to: "/workloads", label: text.pages.workloads, icon: IconListDetails },
] as const;

/** The menu of narrow screens. */
export function BottomBar() {
  const [isOpen, setOpen] = useState(false);
  const me = useMe();
  const close = () => setOpen(false);
  return (
    <>
      <nav className={classes.bottom} aria-label={text.navigation}>
        {PLACES.map((each) => (
          <Link
            key={each.to}
            to={each.to}
            className={classes.bottomLink}
            activeProps={{ className: classes.bottomActive, "aria-current": "page" }}
            activeOptions={{ exact: each.to === "/", includeSearch: false }}
          >
            <each.icon size={20} stroke={1.6} />
            {each.label}
          </Link>
        ))}
        <button type="button" className={classes.bottomLink} onClick={() => setOpen(true)}>
          <IconMenu2 size={20} stroke={1.6} />
          {text.more}
        </button>
      </nav>
      <Drawer
        opened={isOpen}
        onClose={close}
        position="bottom"
        size="80%"
        title={text.product}
        closeButtonProps={{ "aria-label": text.shared.close }}
      >
        {menuFor(me?.permissions ?? []).map((each) => (
          <Link
            key={each.path}
            to={each.path as never}
            className={classes.link}
            style={{ minHeight: 32 }}
            onClick={close}
          >
            <each.icon size={18} stroke={1.6} />
            {each.label}
          </Link>
        ))}
      </Drawer>
    </>
  );
}
