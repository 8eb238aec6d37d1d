/** Who lends to whom: ribbons from quotas to what is held. */
import { useElementSize } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import clsx from "clsx";
import { useId, useMemo, useState } from "react";
import { useProjectColour } from "@/api/queries";
import { quota } from "@/model/format";
import { type Block, folded, lendingOf, type Ribbon, type Share, type Span, sumOfQuotas } from "@/model/lending";
import { text } from "@/text/projects";
import classes from "./Ribbons.module.css";

interface Props {
  shares: readonly Share[];
  /** Null where the reader may not see nodes. */
  capacity: number | null;
  free: number | null;
}

const BAR = 28;
const GAP = 78;
const HEIGHT = BAR * 2 + GAP;
const MOST = 20;
/** About the width of a character of the labels. */
const CHARACTER = 6.8;

export function Ribbons({ shares, capacity, free }: Props) {
  const { ref, width } = useElementSize();
  const [pointed, point] = useState<string | null>(null);
  const colour = useProjectColour();
  const picture = useMemo(
    () => lendingOf(folded(shares, MOST, text.lending.others), capacity, free),
    [shares, capacity, free],
  );
  const paint = (project: string | null) =>
    project === null || project === text.lending.others ? "var(--text-3)" : colour(project);
  const x = (at: number) => (picture.scale === 0 ? 0 : (at / picture.scale) * width);
  const quotas = sumOfQuotas(shares);
  const held = shares.reduce((sum, each) => sum + each.allocated, 0);
  const pattern = useId().replaceAll(":", "");
  const sentences = picture.ribbons.map(sentenceOf);
  if (picture.scale === 0) return <p>{text.lending.empty}</p>;
  return (
    <div className={classes.frame}>
      <div className={classes.caption}>
        <span>{text.lending.owed}</span>
        <span>{text.lending.owedSum(quotas, capacity)}</span>
      </div>
      <div ref={ref}>
        {width > 0 && (
          // biome-ignore lint/a11y/useSemanticElements: a picture with links in it; HTML has no element for that
          <svg className={classes.svg} height={HEIGHT} width={width} aria-labelledby={`${pattern}t`} role="group">
            <title id={`${pattern}t`}>{sentences.join(". ")}</title>
            <defs>
              {[...new Set(picture.held.map((each) => each.project))].map((each) => (
                <Stripes key={each ?? ""} id={stripesOf(pattern, each)} colour={paint(each)} />
              ))}
            </defs>
            {picture.ribbons.map((each, number) => (
              <path
                key={each.key}
                d={ribbonPath(each, x)}
                fill={paint(each.lender)}
                className={clsx(
                  classes.ribbon,
                  each.kind === "lent" && classes.lent,
                  pointed !== null && (touches(each, pointed) ? classes.bright : classes.faded),
                )}
              >
                <title>{sentences[number]}</title>
              </path>
            ))}
            {ribbonLabels(picture.ribbons, x).map((each) => (
              <text key={each.key} x={each.x} y={BAR + GAP / 2 + 4} textAnchor="middle" className={classes.amount}>
                {each.words}
              </text>
            ))}
            {[...picture.owed, ...picture.held].map((each) => (
              <BlockShape
                key={each.key}
                block={each}
                x={x}
                y={each.kind === "own" || each.kind === "over" || isBelow(picture.held, each) ? BAR + GAP : 0}
                fill={fillOf(each, paint, pattern)}
                colour={paint(each.project)}
                onPoint={point}
              />
            ))}
          </svg>
        )}
      </div>
      <div className={classes.caption}>
        <span>{text.lending.held}</span>
        <span>{text.lending.heldSum(held, capacity)}</span>
      </div>
    </div>
  );
}

const stripesOf = (pattern: string, project: string | null) => `${pattern}-${project ?? ""}`;
const isBelow = (held: readonly Block[], block: Block) => held.includes(block);
const touches = (ribbon: Ribbon, project: string) => ribbon.lender === project || ribbon.borrower === project;

function fillOf(block: Block, paint: (project: string | null) => string, pattern: string): string {
  if (block.kind === "over") return `url(#${stripesOf(pattern, block.project)})`;
  if (block.kind === "unassigned" || block.kind === "free" || block.kind === "hidden") return "var(--sunken)";
  return paint(block.project);
}

function sentenceOf(ribbon: Ribbon): string {
  if (ribbon.kind === "own") return text.lending.ownSentence(ribbon.lender!, ribbon.amount);
  if (ribbon.kind === "unassigned") return text.lending.unassignedSentence(ribbon.borrower, ribbon.amount);
  return text.lending.sentence(ribbon.lender, ribbon.borrower, ribbon.amount);
}

function ribbonPath({ above, below }: Ribbon, x: (at: number) => number): string {
  const [top, bottom] = [BAR, BAR + GAP];
  const middle = (top + bottom) / 2;
  const [a, b] = inset(above, x);
  const [c, d] = inset(below, x);
  return `M${a} ${top}C${a} ${middle} ${c} ${middle} ${c} ${bottom}L${d} ${bottom}C${d} ${middle} ${b} ${middle} ${b} ${top}Z`;
}

/** Half a pixel at each side, so that neighbours stand apart. */
function inset(span: Span, x: (at: number) => number): [number, number] {
  const [from, to] = [x(span[0]), x(span[1])];
  return to - from > 3 ? [from + 0.5, to - 0.5] : [from, to];
}

function Stripes({ id, colour }: { id: string; colour: string }) {
  return (
    <pattern id={id} width="10" height="10" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect width="10" height="10" fill={colour} fillOpacity="0.45" />
      <rect width="5" height="10" fill={colour} />
    </pattern>
  );
}

interface Placed {
  key: string;
  x: number;
  words: string;
}

/** Amounts on ribbons that are wide enough, the largest first; one that would lie on another is left out. */
function ribbonLabels(ribbons: readonly Ribbon[], x: (at: number) => number): Placed[] {
  const placed: Placed[] = [];
  const lent = ribbons.filter((each) => each.kind === "lent").sort((a, b) => b.amount - a.amount);
  for (const ribbon of lent) {
    const { above, below } = ribbon;
    const width = Math.min(x(above[1]) - x(above[0]), x(below[1]) - x(below[0]));
    const long = text.lending.lends(ribbon.amount);
    const words = width > long.length * CHARACTER ? long : width > 22 ? quota(ribbon.amount) : null;
    const at = (x(above[0]) + x(above[1]) + x(below[0]) + x(below[1])) / 4;
    const isFree = (each: Placed) =>
      Math.abs(each.x - at) > ((each.words.length + (words?.length ?? 0)) / 2) * CHARACTER + 4;
    if (words !== null && placed.every(isFree)) placed.push({ key: ribbon.key, x: at, words });
  }
  return placed;
}

function labelsOf(block: Block): string[] {
  const amount = block.amount;
  switch (block.kind) {
    case "quota":
      return [text.lending.block(block.project!, amount, block.isUnlimited), block.project!, quota(amount)];
    case "own":
      return [text.lending.own(amount), text.lending.own(amount).split(" ")[0]!];
    case "over":
      return [text.lending.over(amount), text.lending.overShort(amount)];
    case "unassigned":
      return [text.lending.unassigned(amount)];
    case "free":
      return [text.lending.free(amount)];
    default:
      return [text.lending.hidden];
  }
}

interface BlockProps {
  block: Block;
  x: (at: number) => number;
  y: number;
  fill: string;
  colour: string;
  onPoint: (project: string | null) => void;
}

function BlockShape({ block, x, y, fill, colour, onPoint }: BlockProps) {
  const navigate = useNavigate();
  const [from, to] = inset(block.span, x);
  const width = Math.max(1, to - from);
  const labels = labelsOf(block);
  const label = labels.find((each) => each.length * CHARACTER + 10 < width);
  const isPlain = block.kind === "unassigned" || block.kind === "free" || block.kind === "hidden";
  const opens = block.project !== null && block.project !== text.lending.others;
  const open = () => opens && void navigate({ to: "/projects/$project", params: { project: block.project! } } as never);
  const words = block.project === null ? labels[0]! : `${block.project}: ${labels[0]}`;
  return (
    <a
      className={clsx(classes.block, isPlain && classes.plain)}
      href={opens ? `/projects/${encodeURIComponent(block.project!)}` : undefined}
      onClick={(event) => {
        event.preventDefault();
        open();
      }}
      onMouseEnter={() => onPoint(block.project)}
      onMouseLeave={() => onPoint(null)}
      onFocus={() => onPoint(block.project)}
      onBlur={() => onPoint(null)}
      aria-label={words}
    >
      <rect
        x={from}
        y={y}
        width={width}
        height={BAR}
        rx={4}
        fill={fill}
        stroke={isPlain ? "var(--edge)" : block.kind === "over" ? colour : "none"}
        strokeDasharray={isPlain ? "3 3" : undefined}
      />
      {label !== undefined && block.kind === "over" && (
        <rect
          className={classes.pill}
          x={from + width / 2 - (label.length * CHARACTER) / 2 - 5}
          y={y + 5}
          width={label.length * CHARACTER + 10}
          height={BAR - 10}
          rx={4}
          fill={colour}
        />
      )}
      {label !== undefined && (
        <text x={from + width / 2} y={y + BAR / 2 + 4} textAnchor="middle">
          {label}
        </text>
      )}
    </a>
  );
}
