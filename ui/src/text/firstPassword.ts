export const text = {
  title: "Choose a password of your own",
  why: "The password you signed in with was set by an administrator. Choose your own to continue.",
  signOut: "Sign out instead",
};
