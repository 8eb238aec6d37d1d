import { createContext, type ReactNode, useContext } from "react";
import type { FieldDescription, SpecFormState } from "./description";
import { SpecField } from "./SpecField";
import classes from "./SpecForm.module.css";

const SpecFormContext = createContext<SpecFormState | null>(null);

export function SpecForm({ state, children }: { state: SpecFormState; children: ReactNode }) {
  return <SpecFormContext.Provider value={state}>{children}</SpecFormContext.Provider>;
}

export function useSpecForm(): SpecFormState {
  const state = useContext(SpecFormContext);
  if (state === null) throw new Error("a field stands outside of its form");
  return state;
}

/** The fields of one table, in columns where there is room. */
export function SpecFields({ fields }: { fields: readonly FieldDescription[] }) {
  const { values } = useSpecForm();
  return (
    <div className={classes.fields}>
      {fields
        .filter((field) => field.isShown?.(values) ?? true)
        .map((field) => (
          <div key={field.path} className={field.isWide || field.control === "list" ? classes.wide : classes.field}>
            <SpecField field={field} />
          </div>
        ))}
    </div>
  );
}
