import { text } from "@/text/policies";
import { type Binding, bindings } from "./document";
import classes from "./Policies.module.css";

const { binding: words } = text;

interface Props {
  document: Record<string, unknown>;
  defaultSources?: Record<string, string>;
  /** Said where the server names no source. */
  source?: string;
  /** Said where nothing binds. */
  none?: string;
}

/** What binds, parameter by parameter. */
export function Bindings({ document, defaultSources, source, none }: Props) {
  const rows = bindings(document, defaultSources);
  const assets = Array.isArray(document.imposedAssets) ? document.imposedAssets.map(String) : [];
  if (rows.length === 0 && assets.length === 0) return <p className={classes.dim}>{none ?? words.nothing}</p>;
  return (
    <div className={classes.scroll}>
      <table className={classes.table}>
        <thead>
          <tr>
            <th scope="col">{words.parameter}</th>
            <th scope="col">{words.default}</th>
            <th scope="col">{words.rule}</th>
            <th scope="col">{words.source}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((each) => (
            <Row key={each.parameter} row={each} source={source} />
          ))}
          {assets.length > 0 && (
            <tr>
              <th scope="row">{words.imposed}</th>
              <td colSpan={3}>{assets.join(", ")}</td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

function Row({ row, source }: { row: Binding; source: string | undefined }) {
  return (
    <tr>
      <th scope="row">{row.parameter}</th>
      <td>{row.default}</td>
      <td>{row.rules.join(", ")}</td>
      <td className={classes.dim}>{row.sources.join(", ") || source}</td>
    </tr>
  );
}
