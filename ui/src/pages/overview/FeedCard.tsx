import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Moment } from "@/components/Moment";
import { Empty } from "@/components/states";
import { DecisionIcon, EntrySentence } from "@/pages/decisions/DecisionSentence";
import { entriesOf, withoutKeptPromises } from "@/pages/decisions/grouping";
import { text } from "@/text/overview";
import classes from "./FeedCard.module.css";
import { PartCard } from "./PartCard";
import { feedQuery, type Scope } from "./questions";

const ENTRIES = 7;
const { feed: words } = text;

/** The latest decisions as sentences. Key `decisions`: the stream says when there is a new one. */
export function FeedCard({ scope, className }: { scope: Scope; className?: string | undefined }) {
  const query = useQuery(feedQuery(scope));
  return (
    <PartCard
      query={query}
      className={className}
      title={words.title}
      rows={5}
      aside={<Link to="/decisions">{words.all}</Link>}
    >
      {({ decisions }) => {
        const entries = entriesOf(withoutKeptPromises(decisions)).slice(0, ENTRIES);
        if (entries.length === 0) return <Empty title={words.empty} hint={words.emptyHint} />;
        return (
          <ol className={classes.feed} aria-live="polite" aria-relevant="additions">
            {entries.map((each) => (
              <li key={each.id} className={classes.entry}>
                <span className={classes.time}>
                  <Moment at={each.at} />
                </span>
                <DecisionIcon kind={each.kind} />
                <span className={classes.words}>
                  <EntrySentence entry={each} />
                </span>
              </li>
            ))}
          </ol>
        );
      }}
    </PartCard>
  );
}
