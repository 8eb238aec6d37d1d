/** The text of a policy, with the lines that have a problem marked. Loaded when a policy is opened. */
import { yaml } from "@codemirror/lang-yaml";
import CodeMirror, {
  Decoration,
  EditorSelection,
  EditorView,
  type Extension,
  type ReactCodeMirrorRef,
  ViewPlugin,
} from "@uiw/react-codemirror";
import { useEffect, useMemo, useRef } from "react";
import { useScheme } from "@/theme/scheme";

interface Props {
  value: string;
  onChange: (value: string) => void;
  label: string;
  readOnly: boolean;
  wrongLines: readonly number[];
  /** A line to go to; another object goes there again. */
  goTo: { line: number } | null;
}

/** Marks lines as wrong until the text is changed. */
function marked(lines: readonly number[]): Extension {
  return ViewPlugin.define(
    (view) => ({
      decorations: Decoration.set(
        [...new Set(lines)]
          .filter((each) => each >= 1 && each <= view.state.doc.lines)
          .sort((a, b) => a - b)
          .map((each) => Decoration.line({ class: "wrong" }).range(view.state.doc.line(each).from)),
      ),
      update(update) {
        if (update.docChanged) this.decorations = this.decorations.map(update.changes);
      },
    }),
    { decorations: (plugin) => plugin.decorations },
  );
}

export default function PolicyText({ value, onChange, label, readOnly, wrongLines, goTo }: Props) {
  const editor = useRef<ReactCodeMirrorRef>(null);
  const lines = wrongLines.join(",");
  const extensions = useMemo(
    () => [
      yaml(),
      EditorView.contentAttributes.of({ "aria-label": label }),
      EditorView.lineWrapping,
      marked(lines === "" ? [] : lines.split(",").map(Number)),
    ],
    [label, lines],
  );
  useEffect(() => {
    const view = editor.current?.view;
    if (goTo === null || view === undefined || goTo.line > view.state.doc.lines) return;
    const { from } = view.state.doc.line(goTo.line);
    view.dispatch({ selection: EditorSelection.cursor(from), scrollIntoView: true });
    view.focus();
  }, [goTo]);
  return (
    <CodeMirror
      ref={editor}
      value={value}
      onChange={onChange}
      readOnly={readOnly}
      extensions={extensions}
      theme={useScheme()}
      minHeight="280px"
      maxHeight="60vh"
    />
  );
}
