/** YAML to read. Loaded on demand. */
import { yaml } from "@codemirror/lang-yaml";
import CodeMirror, { EditorView } from "@uiw/react-codemirror";
import { useScheme } from "@/theme/scheme";

const LOOK = EditorView.theme({
  "&": { backgroundColor: "transparent !important", fontSize: "12px" },
  ".cm-content": { fontFamily: "var(--mono)" },
  ".cm-gutters": { backgroundColor: "transparent !important", border: "0", color: "var(--text-3) !important" },
});

export function YamlView({ value, label }: { value: string; label: string }) {
  const scheme = useScheme();
  return (
    <CodeMirror
      value={value}
      readOnly
      theme={scheme}
      maxHeight="60vh"
      extensions={[yaml(), LOOK, EditorView.lineWrapping, EditorView.contentAttributes.of({ "aria-label": label })]}
      basicSetup={{ foldGutter: true, highlightActiveLine: false, highlightActiveLineGutter: false }}
    />
  );
}
