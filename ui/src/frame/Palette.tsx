import { ActionIcon, Modal } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { text as frameText } from "@/text/frame";
import { text } from "@/text/palette";
import { useDensity } from "./density";
import classes from "./Palette.module.css";
import { PaletteSearch } from "./PaletteSearch";
import shell from "./Shell.module.css";

/** The field in the header that opens the palette; Ctrl K and Cmd K open it everywhere. */
export function Finder({ isNarrow }: { isNarrow: boolean }) {
  const [isOpen, setOpen] = useState(false);
  useDensity();
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey)
        return;
      event.preventDefault();
      setOpen((now) => !now);
    };
    addEventListener("keydown", pressed, { capture: true });
    return () => removeEventListener("keydown", pressed, { capture: true });
  }, []);
  const open = () => setOpen(true);
  const close = () => setOpen(false);
  return (
    <>
      {isNarrow ? (
        <ActionIcon size={44} variant="transparent" color="gray" onClick={open} aria-label={text.open}>
          <IconSearch size={20} />
        </ActionIcon>
      ) : (
        <button type="button" className={shell.finder} onClick={open} aria-keyshortcuts="Control+K Meta+K">
          <IconSearch size={16} />
          <span>{frameText.search}</span>
          <kbd>{text.narrowKey.join(" ")}</kbd>
        </button>
      )}
      <Modal.Root
        opened={isOpen}
        onClose={close}
        centered={false}
        yOffset="10vh"
        size={640}
        transitionProps={{ duration: 120 }}
      >
        <Modal.Overlay />
        <Modal.Content aria-label={text.open}>
          <Modal.Body className={classes.body}>
            <PaletteSearch onClose={close} />
          </Modal.Body>
        </Modal.Content>
      </Modal.Root>
    </>
  );
}
