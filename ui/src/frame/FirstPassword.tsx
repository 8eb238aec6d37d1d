import { Button, Modal, Stack } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { ApiError } from "@/api/client";
import { meQuery, useMe } from "@/api/queries";
import { PasswordForm } from "@/pages/profile/PasswordForm";
import { text } from "@/text/firstPassword";
import { signOut } from "./signOut";

const MUST_CHANGE = "access.password_must_change";

/** In front of everything, as long as the server answers nothing but a change of the password. */
export function FirstPassword() {
  const queries = useQueryClient();
  const me = useMe();
  useEffect(
    () =>
      queries.getQueryCache().subscribe((event) => {
        const error = event.type === "updated" && event.action.type === "error" ? event.action.error : null;
        if (error instanceof ApiError && error.problems.some((each) => each.code === MUST_CHANGE))
          void queries.invalidateQueries({ queryKey: meQuery.queryKey });
      }),
    [queries],
  );
  if (!me?.mustChangePassword) return null;
  return (
    <Modal
      opened
      onClose={() => {}}
      title={text.title}
      withCloseButton={false}
      closeOnEscape={false}
      closeOnClickOutside={false}
      overlayProps={{ backgroundOpacity: 0.75, blur: 4 }}
    >
      <Stack gap="sm">
        <p>{text.why}</p>
        <PasswordForm
          hasPassword={me.hasPassword ?? true}
          onDone={() => void queries.invalidateQueries()}
          aside={
            <Button variant="subtle" onClick={signOut}>
              {text.signOut}
            </Button>
          }
        />
      </Stack>
    </Modal>
  );
}
