/** How good the estimates of starts were. */
import { Loaded } from "@/components/states";
import { clock } from "@/model/format";
import { text } from "@/text/analytics";
import classes from "./Analytics.module.css";
import { type Scope, useEstimates } from "./data";
import { PanelFrame } from "./Panel";
import { type Asked, ignored } from "./search";

const words = text.estimateColumns;

export function EstimatesPanel({ scope, asked }: { scope: Scope; asked: Asked }) {
  const query = useEstimates(scope, asked.filters.project);
  return (
    <PanelFrame id="estimates" title={text.panels.estimates} caveat={ignored(asked.filters, ["project"])}>
      <Loaded query={query} height={120}>
        {(data) => (
          <>
            <p className={classes.sentence}>{data.total.estimates === 0 ? text.estimatesNone : data.message}</p>
            <p className={classes.hint}>{text.estimatesOpen(data.open)}</p>
            {data.total.estimates > 0 && (
              <div className={classes.scroll}>
                <table className={classes.table}>
                  <thead>
                    <tr>
                      <th scope="col">{words.basis}</th>
                      {[words.estimates, words.within, words.interval, words.later, words.earlier, words.median].map(
                        (each) => (
                          <th key={each} scope="col" className={classes.right}>
                            {each}
                          </th>
                        ),
                      )}
                    </tr>
                  </thead>
                  <tbody>
                    {[...data.byBasis, data.total].map((each) => (
                      <tr key={each.basis}>
                        <td>{text.bases[each.basis] ?? each.basis}</td>
                        {[each.estimates, each.within5Min, each.withinInterval, each.later, each.earlier].map(
                          (figure, number) => (
                            <td key={number} className={classes.right}>
                              {figure}
                            </td>
                          ),
                        )}
                        <td className={classes.right}>{signed(each.medianErrorS)}</td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
            )}
          </>
        )}
      </Loaded>
    </PanelFrame>
  );
}

/** Later is positive. */
function signed(seconds: number | null | undefined): string {
  if (seconds == null) return clock(null);
  return `${seconds < 0 ? "−" : "+"}${clock(Math.abs(seconds) * 1000)}`;
}
