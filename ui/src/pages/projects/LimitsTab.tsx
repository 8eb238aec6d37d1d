import { NumberInput } from "@mantine/core";
import type { ApiError, Schema } from "@/api/client";
import { duration } from "@/model/format";
import { text } from "@/text/projects";
import classes from "./ProjectForm.module.css";
import { type Span, secondsOf, spanOf } from "./projectForm";

type Rules = Schema<"SchedulingRules">;
const PARTS: (keyof Span)[] = ["days", "hours", "minutes"];

interface Props {
  rules: Rules;
  inherited: Rules | undefined;
  onChange: (rules: Rules) => void;
  error: ApiError | null;
}

/** How long work may run, and how long it may hold GPUs that do nothing. */
export function LimitsTab({ rules, inherited, onChange, error }: Props) {
  const keys = Object.keys(text.form.rules) as (keyof Rules)[];
  return (
    <div>
      <p className={classes.second}>{`${text.form.limitsNote} ${text.form.inheritedLimits}`}</p>
      {keys.map((key) => {
        const span = spanOf(rules[key]);
        const label = text.form.rules[key]!;
        const from = rules[key] == null ? inherited?.[key] : null;
        const problem = error?.of(`schedulingRules.${key}`)?.what;
        return (
          <div key={key} className={classes.limit}>
            <span>
              {label}
              {from != null && <div className={classes.second}>{text.form.effective(duration(from * 1000))}</div>}
              {problem !== undefined && <div role="alert">{problem}</div>}
            </span>
            {PARTS.map((part) => (
              <NumberInput
                key={part}
                aria-label={`${label}, ${text.form[part]}`}
                min={0}
                allowNegative={false}
                allowDecimal={false}
                hideControls
                suffix={` ${text.form[part]}`}
                placeholder={text.form[part]}
                value={span[part] === 0 ? "" : span[part]}
                onChange={(next) =>
                  onChange({ ...rules, [key]: secondsOf({ ...span, [part]: typeof next === "number" ? next : 0 }) })
                }
              />
            ))}
          </div>
        );
      })}
    </div>
  );
}
