import { Badge, Button, NumberInput, Select, Switch, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type FormEvent, useState } from "react";
import { api, got, type Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { useWritesHeld } from "@/api/writes";
import { done, refused } from "@/components/answers";
import { Moment } from "@/components/Moment";
import { otherProblems } from "@/model/problem";
import { text as frame } from "@/text/frame";
import { text } from "@/text/settings";
import classes from "./Settings.module.css";
import { isDefault, labelParts, valueWords } from "./words";

type Setting = Schema<"Setting">;
type Value = Setting["value"];
const PROVIDER = "security.signInProvider";

function useSave(setting: Setting) {
  const queries = useQueryClient();
  return async (value: Value) => {
    await got(api.PUT("/api/v1/settings/{key}", { params: { path: { key: setting.key } }, body: { value } }));
    await queries.invalidateQueries({ queryKey: ["settings"] });
    done(text.saved(setting.label));
  };
}

/** One setting: what it means, its value in words, the default, and who changed it last. */
export function SettingRow({ setting }: { setting: Setting }) {
  const [isEditing, setEditing] = useState(false);
  const mayWrite = useMay("setting.write");
  const mayAudit = useMay("audit.read");
  const isHeld = useWritesHeld();
  const save = useSave(setting);
  const saveOrSay = (value: Value) => void save(value).catch((error: unknown) => refused(error));
  return (
    <li className={classes.setting} data-setting={setting.key}>
      <div>
        <p className={classes.label}>
          {labelParts(setting.label).name}{" "}
          {setting.stage && setting.stage !== "GA" && <Badge color="gray">{text.stage}</Badge>}
        </p>
        <p className={classes.hint}>{setting.description}</p>
        <p className={classes.meta}>
          <span>{text.default(valueWords(setting, setting.default))}</span>
          {setting.updatedAt ? (
            <span>
              {text.changed(setting.updatedBy ?? "")} <Moment at={setting.updatedAt} />
            </span>
          ) : (
            <span>{text.neverChanged}</span>
          )}
          {mayAudit && setting.updatedAt && (
            <Link to="/audit" search={{ f: [`entity_id==${setting.key}`], period: "all" } as never}>
              {text.history}
            </Link>
          )}
          {setting.active === false && <span>{text.notInEffect}</span>}
        </p>
      </div>
      <div className={classes.value}>
        {isEditing ? (
          <ValueForm setting={setting} onSave={save} onClose={() => setEditing(false)} />
        ) : (
          <>
            <div className={classes.now}>
              {typeof setting.value === "boolean" ? (
                <Switch
                  label={valueWords(setting, setting.value)}
                  labelPosition="left"
                  aria-label={setting.label}
                  checked={setting.value}
                  disabled={!mayWrite || isHeld}
                  onChange={(event) => saveOrSay(event.currentTarget.checked)}
                />
              ) : (
                <>
                  <span>{valueWords(setting, setting.value)}</span>
                  {mayWrite && (
                    <Button
                      size="compact-sm"
                      disabled={isHeld}
                      onClick={() => setEditing(true)}
                      aria-label={text.changeOf(setting.label)}
                    >
                      {text.change}
                    </Button>
                  )}
                </>
              )}
            </div>
            {mayWrite && !isDefault(setting) && (
              <Button
                size="compact-xs"
                variant="subtle"
                disabled={isHeld}
                onClick={() => saveOrSay(setting.default)}
                aria-label={text.resetOf(setting.label)}
              >
                {text.reset}
              </Button>
            )}
          </>
        )}
      </div>
    </li>
  );
}

interface FormProps {
  setting: Setting;
  onSave: (value: Value) => Promise<void>;
  onClose: () => void;
}

function ValueForm({ setting, onSave, onClose }: FormProps) {
  const [value, setValue] = useState<string | number>(setting.value as string | number);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const problem = otherProblems(error, []).join(" ") || undefined;
  const isNumber = typeof setting.value === "number";
  const { unit } = labelParts(setting.label);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      await onSave(value);
      onClose();
    } catch (caught) {
      setError(caught);
      setBusy(false);
    }
  };
  const common = { "aria-label": setting.label, error: problem, "data-autofocus": true, autoFocus: true };
  return (
    <form className={classes.editor} onSubmit={(event) => void submit(event)}>
      {setting.key === PROVIDER ? (
        <ProviderChoice value={String(value)} onChange={setValue} error={problem} label={setting.label} />
      ) : isNumber ? (
        <NumberInput
          {...common}
          description={typeof value === "number" ? valueWords(setting, value) : undefined}
          allowDecimal={false}
          suffix={unit === null ? "" : ` ${unit}`}
          value={value}
          onChange={setValue}
        />
      ) : (
        <TextInput {...common} value={String(value)} onChange={(event) => setValue(event.currentTarget.value)} />
      )}
      <Button type="submit" size="sm" variant="filled" loading={isBusy}>
        {frame.shared.save}
      </Button>
      <Button size="sm" onClick={onClose}>
        {frame.shared.cancel}
      </Button>
    </form>
  );
}

interface ChoiceProps {
  value: string;
  onChange: (value: string) => void;
  error: string | undefined;
  label: string;
}

function ProviderChoice({ value, onChange, error, label }: ChoiceProps) {
  const ways = useQuery({ queryKey: ["settings", "ways"], queryFn: () => got(api.GET("/api/v1/sign-in/ways")) }).data;
  return (
    <Select
      aria-label={label}
      error={error}
      allowDeselect={false}
      data={[{ value: "", label: text.none }, ...(ways?.providers ?? [])]}
      value={value}
      onChange={(next) => onChange(next ?? "")}
    />
  );
}
