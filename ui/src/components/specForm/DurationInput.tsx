import { TextInput, type TextInputProps } from "@mantine/core";
import { useState } from "react";
import { goDuration } from "@/model/submission";
import { secondsOf } from "./description";

type Props = Omit<TextInputProps, "value" | "onChange"> & { value: unknown; onChange: (value: unknown) => void };

/** A duration as people write it. What cannot be read is sent as it is, so that the server says what is wrong. */
export function DurationInput({ value, onChange, ...rest }: Props) {
  const [draft, setDraft] = useState<{ text: string; for: unknown } | null>(null);
  const written = typeof value === "number" ? goDuration(value) : String(value ?? "");
  return (
    <TextInput
      {...rest}
      value={draft !== null && draft.for === value ? draft.text : written}
      onChange={(event) => {
        const text = event.currentTarget.value;
        const next = text.trim() === "" ? undefined : (secondsOf(text) ?? text);
        setDraft({ text, for: next });
        onChange(next);
      }}
      spellCheck={false}
    />
  );
}
