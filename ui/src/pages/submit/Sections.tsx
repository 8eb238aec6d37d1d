/** The folded rest of the form, and the editor for what the form does not have. */
import { Accordion, Badge } from "@mantine/core";
import { lazy, Suspense } from "react";
import { SpecFields, useSpecForm } from "@/components/specForm/SpecForm";
import { Loading } from "@/components/states";
import { isEmpty, valueAt } from "@/model/paths";
import type { Kind } from "@/model/submission";
import { text } from "@/text/submit";
import classes from "./Submit.module.css";
import { foldedSections } from "./sections";

const YamlEditor = lazy(() => import("@/components/specForm/YamlEditor"));

interface Props {
  kind: Kind;
  open: string[];
  onOpen: (open: string[]) => void;
  more: string;
  onMore: (more: string) => void;
  moreError: string | null;
}

export function Sections({ kind, open, onOpen, more, onMore, moreError }: Props) {
  const { values, problemAt } = useSpecForm();
  return (
    <Accordion
      multiple
      value={open}
      onChange={onOpen}
      variant="contained"
      classNames={{ content: classes.content!, item: classes.folded! }}
    >
      {foldedSections(kind).map(({ key, fields }) => {
        const filled = fields.filter((each) => !isEmpty(valueAt(values, each.path))).length;
        const isWrong = fields.some((each) => problemAt(each.path) !== undefined);
        return (
          <Accordion.Item key={key} value={key}>
            <Accordion.Control>
              <span className={classes.control}>
                {text.sections[key]}
                {filled > 0 && (
                  <Badge size="sm" variant="light" color={isWrong ? "red" : "accent"}>
                    {text.filled(filled)}
                  </Badge>
                )}
              </span>
            </Accordion.Control>
            <Accordion.Panel>{open.includes(key) && <SpecFields fields={fields} />}</Accordion.Panel>
          </Accordion.Item>
        );
      })}
      <Accordion.Item value="more">
        <Accordion.Control>
          <span className={classes.control}>
            {text.sections.more}
            {more.trim() !== "" && (
              <Badge size="sm" variant="light" color={moreError === null ? "accent" : "red"}>
                {text.filled(1)}
              </Badge>
            )}
          </span>
        </Accordion.Control>
        <Accordion.Panel>
          <p className={classes.hint}>{text.more.hint}</p>
          {open.includes("more") && (
            <Suspense fallback={<Loading height={120} />}>
              <div className={classes.editor}>
                <YamlEditor value={more} onChange={onMore} label={text.more.label} />
              </div>
            </Suspense>
          )}
          {moreError !== null && <p className={classes.error}>{moreError}</p>}
        </Accordion.Panel>
      </Accordion.Item>
    </Accordion>
  );
}
