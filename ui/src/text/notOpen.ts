export const text = {
  title: "This page is not open to you",
  hint: "It needs a role that you do not have. Your roles are in your profile; an administrator changes them.",
  toProfile: "To your profile",
};
