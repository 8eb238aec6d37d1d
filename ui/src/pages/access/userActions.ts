import { modals } from "@mantine/modals";
import { api, got, type Schema } from "@/api/client";
import { done, refused } from "@/components/answers";
import type { Removal } from "@/components/removal";
import type { Secret } from "@/components/SecretOnce";
import { text } from "@/text/access";
import { text as frame } from "@/text/frame";
import { passwordSecret } from "./NewUser";

type User = Schema<"User">;
const { users } = text;

export async function setDisabled(user: User, disabled: boolean, reread: () => Promise<void>): Promise<void> {
  try {
    await got(api.PATCH("/api/v1/users/{user_id}", { params: { path: { user_id: user.id } }, body: { disabled } }));
    done(disabled ? users.disabledNow(user.email) : users.enabledNow(user.email));
    await reread();
  } catch (error) {
    refused(error);
  }
}

export async function endSessions(user: User, reread: () => Promise<void>): Promise<void> {
  try {
    await got(api.POST("/api/v1/users/{user_id}/logout", { params: { path: { user_id: user.id } } }));
    done(users.endedNow(user.email));
    await reread();
  } catch (error) {
    refused(error);
  }
}

export function resetPassword(user: User, onSecret: (secret: Secret) => void): void {
  const reset = async () => {
    try {
      const answer = await got(
        api.POST("/api/v1/users/{user_id}/password", { params: { path: { user_id: user.id } } }),
      );
      onSecret(passwordSecret(user.email, answer.tempPassword));
    } catch (error) {
      refused(error);
    }
  };
  modals.openConfirmModal({
    title: users.resetTitle(user.email),
    children: users.resetHint,
    labels: { confirm: users.reset, cancel: frame.shared.cancel },
    confirmProps: { variant: "filled" },
    onConfirm: () => void reset(),
  });
}

export function deleteUser(user: User, removal: Removal): void {
  removal.remove([user.id], users.willDelete(user.email), () =>
    got(api.DELETE("/api/v1/users/{user_id}", { params: { path: { user_id: user.id } } })),
  );
}
