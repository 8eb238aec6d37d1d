import { useLocalStorage, useMediaQuery } from "@mantine/hooks";
import { Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import clsx from "clsx";
import { useEffect, useState } from "react";
import { useMe } from "@/api/queries";
import { useLiveState } from "@/api/stream";
import { Page } from "@/components/Page";
import { Empty } from "@/components/states";
import { text } from "@/text/frame";
import { BottomBar } from "./BottomBar";
import { FirstPassword } from "./FirstPassword";
import { Header } from "./Header";
import { listenForShortcuts } from "./keys";
import { Rail } from "./Rail";
import classes from "./Shell.module.css";
import { ShortcutList } from "./ShortcutList";
import { StaleBanner } from "./StaleBanner";

/** The frame of every page: menu, header, and the page itself, dimmed while its data is old. */
export function Shell() {
  const [isCollapsed, setCollapsed] = useLocalStorage({ key: "fairpool.rail", defaultValue: false });
  const [showsKeys, setShowsKeys] = useState(false);
  const isNarrow = useMediaQuery("(max-width: 700px)");
  const isMedium = useMediaQuery("(max-width: 1100px)");
  const state = useLiveState();
  const navigate = useNavigate();
  const hasNoRole = useHasNoRole();
  useEffect(
    () =>
      listenForShortcuts({
        go: (path) => void navigate({ to: path as never }),
        help: () => setShowsKeys(true),
        toggleRail: () => setCollapsed((now) => !now),
      }),
    [navigate, setCollapsed],
  );
  return (
    <div className={clsx(classes.shell, (isCollapsed || isMedium) && classes.collapsed)}>
      <a href="#page" className={classes.skip}>
        {text.skip}
      </a>
      {!isNarrow && (
        <Rail isCollapsed={isCollapsed || (isMedium ?? false)} onToggle={() => setCollapsed(!isCollapsed)} />
      )}
      <div className={classes.main}>
        <Header onKeys={() => setShowsKeys(true)} isNarrow={isNarrow ?? false} />
        {!hasNoRole && <StaleBanner />}
        <FirstPassword />
        <main
          id="page"
          tabIndex={-1}
          className={clsx(classes.page, state === "stale" && !hasNoRole && classes.old)}
          data-live={state}
        >
          {hasNoRole ? <NoRole /> : <Outlet />}
        </main>
      </div>
      {isNarrow && <BottomBar />}
      <ShortcutList opened={showsKeys} onClose={() => setShowsKeys(false)} />
    </div>
  );
}

/** A user without a role: the server answers nothing, not even its stream of changes. */
function useHasNoRole(): boolean {
  const me = useMe();
  const { pathname } = useLocation();
  const isNew = me !== undefined && !me.mustChangePassword && (me.permissions ?? []).length === 0;
  return isNew && pathname !== "/profile";
}

function NoRole() {
  const me = useMe();
  return (
    <Page title={text.noRole.title}>
      <Empty title={text.noRole.what(me?.username ?? "")} hint={text.noRole.hint} />
    </Page>
  );
}
