export const text = {
  current: "Current password",
  currentHint: "The one you signed in with",
  fresh: "New password",
  again: "New password again",
  rules:
    "Length counts most: several unrelated words are best. It must not contain your name or be one that guessing programs try first.",
  differ: "The two are not the same",
  same: "This is the current password; choose another one",
  missing: "Type a password",
  change: "Change password",
  set: "Set password",
  unreachable: "The server cannot be reached. Nothing was changed.",
};
