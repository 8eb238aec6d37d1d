import { yaml } from "@codemirror/lang-yaml";
import CodeMirror from "@uiw/react-codemirror";
import { useScheme } from "@/theme/scheme";

interface Props {
  value: string;
  onChange: (value: string) => void;
  label: string;
  minHeight?: string;
}

/** An editor for YAML. Loaded when the first one is opened. */
export default function YamlEditor({ value, onChange, label, minHeight = "120px" }: Props) {
  return (
    <CodeMirror
      value={value}
      onChange={onChange}
      extensions={[yaml()]}
      theme={useScheme()}
      minHeight={minHeight}
      maxHeight="480px"
      basicSetup={{ foldGutter: false, highlightActiveLine: false }}
      aria-label={label}
    />
  );
}
