export const text = {
  once: "It is shown only once: it cannot be read again after this dialog is closed.",
  noted: "I have kept it",
  copy: (what: string) => `Copy ${what.toLowerCase()}`,
};
