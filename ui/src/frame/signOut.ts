import { finishPending } from "@/components/answers";
import { forgetDrafts } from "@/model/draftStore";

/** A server that does not answer must not keep anybody signed in. */
const FINISH_MS = 3000;

/** End the session of this browser: a form, because the server answers with a redirect that clears the cookie. What
 * was to be deleted is deleted before, and the next person at this browser finds no drafts. */
export async function signOut(): Promise<void> {
  await Promise.race([finishPending(), new Promise((resolve) => setTimeout(resolve, FINISH_MS))]);
  forgetDrafts();
  const form = document.createElement("form");
  form.method = "post";
  form.action = "/sign-out";
  document.body.append(form);
  form.submit();
}
