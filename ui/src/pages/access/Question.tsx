import { Button, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { Schema } from "@/api/client";
import { useMay } from "@/api/queries";
import { Card } from "@/components/Card";
import { Notice } from "@/components/Notice";
import { text } from "@/text/access";
import classes from "./Access.module.css";
import { type Given, NewRules } from "./NewRules";
import { inScope } from "./parts";
import {
  bySubject,
  groupRulesQuery,
  programsQuery,
  rolesQuery,
  rulesOfQuery,
  usePlaces,
  userSearchQuery,
} from "./queries";
import { type Answer, answer, type Resource, type ScopeType, type Subject, type Verb } from "./question";

const { question: words } = text;
const VERBS: Verb[] = ["read", "update", "create", "delete"];
const SYSTEM = "tenant:";

/** `type:id`, as the choices are named. */
function split(value: string): [string, string] {
  const at = value.indexOf(":");
  return [value.slice(0, at), value.slice(at + 1)];
}

interface Person extends Subject {
  name: string;
  disabled: boolean;
}

/** Those who can be asked about: users by a word, programs and groups all. */
function useSubjects(search: string, chosen: string | null) {
  const users = useQuery(userSearchQuery(search)).data;
  const apps = useQuery({ ...programsQuery("app"), enabled: useMay("application.read") }).data;
  const accounts = useQuery({ ...programsQuery("service-account"), enabled: useMay("service-account.read") }).data;
  const groups = useQuery({ ...groupRulesQuery, enabled: useMay("access-rule.read") }).data;
  const [kept, keep] = useState<Person | null>(null);
  const people = useMemo(() => {
    const program = (type: Subject["type"]) => (each: Schema<"Application">) => ({
      id: each.id,
      type,
      groups: [],
      name: each.name,
      disabled: each.enabled === false,
    });
    const all: Person[] = [
      ...(users ?? []).map((each) => ({
        id: each.id,
        type: "user" as const,
        groups: each.groups ?? [],
        name: each.email,
        disabled: each.disabled ?? false,
      })),
      ...[...bySubject(groups ?? []).keys()].map((id) => ({
        id,
        type: "group" as const,
        groups: [],
        name: id,
        disabled: false,
      })),
      ...(apps ?? []).map(program("app")),
      ...(accounts ?? []).map(program("service-account")),
    ];
    if (kept && !all.some((each) => each.id === kept.id && each.type === kept.type)) all.push(kept);
    return all;
  }, [users, apps, accounts, groups, kept]);
  const person = people.find((each) => `${each.type}:${each.id}` === chosen);
  return { people, person, keep };
}

function grouped(people: readonly Person[]) {
  return Object.entries(text.subjectTypes)
    .map(([type, group]) => ({
      group,
      items: people
        .filter((each) => each.type === type)
        .map((each) => ({ value: `${type}:${each.id}`, label: each.name })),
    }))
    .filter((each) => each.items.length > 0);
}

/** "Can X do Y in Z?", answered with the rules that say so. */
export function QuestionBox() {
  const [search, setSearch] = useState("");
  const [who, setWho] = useState<string | null>(null);
  const [verb, setVerb] = useState<Verb>("create");
  const [thing, setThing] = useState<Resource>("trainings");
  const [where, setWhere] = useState(SYSTEM);
  const { people, person, keep } = useSubjects(search, who);
  const roles = useQuery(rolesQuery).data;
  const places = usePlaces();
  const rows = roles?.find((each) => each.id === 1)?.permissions ?? [];
  const scopes = (["project", "department", "cluster"] as ScopeType[]).map((type) => ({
    group: text.scopeTypes[type],
    items: places.choices(type).map((each) => ({ value: `${type}:${each.value}`, label: each.label })),
  }));
  const verbs = rows.find((each) => each.resourceType === thing)?.actions ?? VERBS;
  const asked = verbs.includes(verb) ? verb : verbs[0]!;
  return (
    <Card title={words.title}>
      <div className={classes.sentence}>
        <span className={classes.word}>{words.can}</span>
        <Select
          w={240}
          label={words.who}
          placeholder={words.whoHint}
          searchable
          searchValue={search}
          onSearchChange={setSearch}
          data={grouped(people)}
          value={who}
          onChange={(next) => {
            setWho(next);
            keep(people.find((each) => `${each.type}:${each.id}` === next) ?? null);
          }}
        />
        <Select
          w={110}
          label={words.what}
          allowDeselect={false}
          data={VERBS.filter((each) => verbs.includes(each)).map((value) => ({ value, label: words.verbs[value] }))}
          value={asked}
          onChange={(next) => setVerb(next as Verb)}
        />
        <Select
          w={200}
          label={words.thing}
          searchable
          allowDeselect={false}
          data={rows.map((each) => ({ value: each.resourceType, label: each.displayName }))}
          value={thing}
          onChange={(next) => next && setThing(next as Resource)}
        />
        <span className={classes.word}>{words.in}</span>
        <Select
          w={200}
          label={words.where}
          searchable
          allowDeselect={false}
          data={[{ value: SYSTEM, label: text.everywhere }, ...scopes.filter((each) => each.items.length > 0)]}
          value={where}
          onChange={(next) => next && setWhere(next)}
        />
      </div>
      {person && roles && (
        <div className={classes.answer}>
          <AnswerBox person={person} verb={asked} thing={thing} where={where} roles={roles} />
        </div>
      )}
    </Card>
  );
}

interface BoxProps {
  person: Person;
  verb: Verb;
  thing: Resource;
  where: string;
  roles: Schema<"Role">[];
}

function AnswerBox({ person, verb, thing, where, roles }: BoxProps) {
  const [given, setGiven] = useState<Given | null>(null);
  const mayGive = useMay("access-rule.create");
  const places = usePlaces();
  const rules = useQuery(rulesOfQuery([person.id, ...person.groups])).data;
  if (rules === undefined) return null;
  const [type, id] = split(where) as [ScopeType, string];
  const found = answer({ subject: person, resource: thing, verb, place: places.place(type, id) }, rules, roles);
  const entity = roles[0]?.permissions.find((each) => each.resourceType === thing)?.displayName.toLowerCase() ?? thing;
  const scope = {
    scopeType: type,
    scopeId: id,
    scopeName: places.choices(type).find((each) => each.value === id)?.label ?? id,
  };
  const sentence = found.isAllowed ? words.yes : words.no;
  const place = type === "tenant" ? text.inSystem : inScope(scope);
  return (
    <>
      <Notice
        tone={found.isAllowed ? (person.disabled ? "careful" : "good") : "plain"}
        title={sentence(person.name, words.verbs[verb], entity, place)}
      >
        {person.disabled && <p>{words.disabled(person.name)}</p>}
        <Reasons found={found} />
        {!found.isAllowed && mayGive && (
          <Button
            size="compact-sm"
            mt={8}
            onClick={() => setGiven({ type: person.type, ids: [person.id], labels: { [person.id]: person.name } })}
          >
            {words.give}
          </Button>
        )}
      </Notice>
      <NewRules given={given} onClose={() => setGiven(null)} />
    </>
  );
}

function Reasons({ found }: { found: Answer }) {
  const rules = found.isAllowed ? found.rules : found.elsewhere;
  return (
    <>
      {!found.isAllowed && found.isTenantWide && <p>{words.tenantWide}</p>}
      {rules.length === 0 ? (
        <p>{words.noRule}</p>
      ) : (
        <>
          <p>{found.isAllowed ? words.because : words.elsewhere}</p>
          <ul className={classes.list}>
            {rules.map((each) => (
              <li key={each.id}>
                <Link to="/access" search={{ tab: "rules", q: each.subjectName || each.subjectId } as never}>
                  {words.rule(each.subjectName || each.subjectId, each.roleName, inScope(each))}
                </Link>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
