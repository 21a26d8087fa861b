// What is known of a mark beyond its figures: the formula of its time, the source of its rate, what a plan says of it.
import { isOf, nameOf, type Spot } from "./marks";
import { page, step, type ChartSpec, type Mark, type Step } from "./state";
import { quantity } from "./quantity";

/** Parts of a formula that are said of one operation. */
const MOST_PARTS = 2;

export function aboutMark(spot: Spot, spec: ChartSpec): string[] {
  if (spec.kind === "front") return aboutDeployment(spot, spec);
  const of = stepOf(spec, spot.mark);
  if (!of) return [];
  return spot.mark.role ? aboutRoof(spot.mark, of) : spot.mark.kind === "bound" ? aboutOperation(spot.mark, of) : [];
}

/** The step that a chart is of: the one shown, of the machine that the mark is on. */
function stepOf(spec: ChartSpec, mark: Mark): Step | undefined {
  const steps = page.value?.steps ?? [];
  const named = steps.filter((each) => !spec.step || each.name === spec.step);
  return named.find((each) => each.on === (mark.on || mark.group)) ?? named.find((each) => each === step.value) ?? named[0];
}

/** A slope is a bandwidth times the intensity, a ceiling a peak: each with the source of its figure. */
function aboutRoof(mark: Mark, of: Step): string[] {
  const rate = of.rates.find((each) => each.figure && nameOf(mark).endsWith(` ${each.figure.replace(".", " ")}`));
  if (!rate) return [];
  return [mark.role === "slope" ? `FLOP/s = ${rate.name} × FLOP/B` : `FLOP/s = ${rate.name}`, `${rate.name} = ${quantity(rate.value, rate.unit)}`, ...(rate.source ? [rate.source] : [])];
}

function aboutOperation(mark: Mark, of: Step): string[] {
  const term = of.terms.find((each) => each.resource === mark.bound_by);
  if (!term) return [];
  const own = term.parts.filter((part) => part.operations.some((name) => isOf(mark, name)));
  const parts = own.length ? own : of.name === "bound" ? term.parts : [];
  const rates = of.rates.filter((rate) => parts.some((part) => part.rate === rate.name) && rate.source);
  return [...parts.slice(0, MOST_PARTS).map((part) => `time of ${part.label} = (${part.amount}) / ${part.rate}`), ...rates.slice(0, 1).map((rate) => rate.source)];
}

/** A deployment of a plan: what binds, and what the next one would change; along a curve, what binds there. */
function aboutDeployment(spot: Spot, spec: ChartSpec): string[] {
  const choices: any[] = page.value?.answer?.choices ?? [], name = nameOf(spot.mark).replace(/ at this load$/, "");
  const at = choices.findIndex((each) => each.deployment === name);
  if (at < 0) {
    const corner = spec.marks.find((mark) => mark.mark === "ridge" && mark.series === spot.mark.series);
    return spot.mark.mark === "line" ? [corner && spot.x >= (corner.x as number) ? "computing binds" : "memory binds"] : [];
  }
  const own = choices[at], next = choices[at + 1];
  const said = [`${own.bound_by} binds`, `$${own.cost_per_hour ?? "?"} an hour`];
  if (next) said.push(`the next best, ${next.deployment}: ${change(own.cost_per_hour, next.cost_per_hour, "the cost")}, ${change(own.per_token?.mean, next.per_token?.mean, "the time per token")}, ${next.bound_by} binds`);
  return said;
}

const change = (was: number | null, is: number | null, what: string): string =>
  was && is ? (was === is ? `${what} is the same` : `${Number((is / was).toPrecision(3))}× ${what}`) : `${what} is not known`;
