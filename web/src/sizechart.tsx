// Time on each resource over one size: the largest is the least a run can take; a line at what is set, rings where it flips.
import { useMemo } from "preact/hooks";
import { Chart } from "./chart";
import { answer, beside, binding, bindingOf, functions, index, measure as chosenMeasure, multipleOf, now, nowOf, over, page, partsAt, settle, step, timesAt, type ChartSpec, type Mark, type Size, type Step, type Values } from "./state";
import { count, quantity } from "./quantity";
import { sentence } from "./sections";

const POINTS = 220;

interface Point { x: number; times: Values; binds: string }

export function sampled(size: Size, values: Values, at: (v: Values) => Values = timesAt, bind: (t: Values) => string = binding): Point[] {
  const each = multipleOf(size.name, values), least = Math.max(each, size.least), ratio = size.most / least;
  const tried = Array.from({ length: POINTS }, (_, i) => each * Math.round((least * ratio ** (i / (POINTS - 1))) / each));
  return [...new Set(tried)].map((x) => {
    const times = at({ ...values, [size.name]: x });
    return { x, times, binds: bind(times) };
  });
}

/** Points between steps: a time that jumps where another algorithm is the faster one has no line across the jump. */
function unbroken(points: Point[], of: (p: Point) => number): Point[][] {
  const pieces: Point[][] = [[]];
  points.forEach((point, i) => {
    const before = points[i - 1];
    if (before && of(before) > 0 && of(point) > 0) {
      const jump = Math.abs(Math.log(of(point) / of(before))), stretch = Math.log(point.x / before.x);
      if (jump > 2.5 * stretch + 0.1) pieces.push([]);
    }
    pieces[pieces.length - 1].push(point);
  });
  return pieces.filter((piece) => piece.length > 1);
}

/** The first multiple of ``each`` at which something is so, where it is not so at ``low`` and is at ``high``: looked for by halving. */
function firstWhere(low: number, high: number, each: number, so: (x: number) => boolean): number {
  while (high - low > each) {
    const middle = each * Math.floor((low + high) / 2 / each);
    if (so(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** The sizes at which another resource binds. */
export function flips(size: Size, values: Values, points: Point[]): { x: number; from: string; to: string }[] {
  return points.slice(1).flatMap((after, i) => {
    const before = points[i], binds = (x: number) => binding(timesAt({ ...values, [size.name]: x }));
    if (before.binds === after.binds) return [];
    const x = firstWhere(before.x, after.x, multipleOf(size.name, values), (x) => binds(x) !== before.binds);
    return [{ x, from: before.binds, to: binds(x) }];
  });
}

/** From which size on a step does not fit; none where it fits at every size shown, or where memory is not known. */
function fullFrom(size: Size, values: Values, points: Point[]): number | null {
  const { capacity } = step.value, over = (x: number) => timesAt({ ...values, [size.name]: x }).memory > capacity!;
  if (capacity === null) return null;
  const at = points.findIndex((point) => over(point.x));
  return at < 0 ? null : at === 0 ? points[0].x : firstWhere(points[at - 1].x, points[at].x, multipleOf(size.name, values), over);
}

/** The next flip as the answer's sizes grow, for its card. */
export function nextFlips(): string[] {
  const values = now.value;
  return step.value.sizes.flatMap((size) => {
    const points = sampled(size, values), next = flips(size, values, points).find((flip) => flip.x > values[size.name]);
    return next ? [`${next.to} binds from ${size.name} = ${count(next.x)} on`] : [];
  });
}

/** Where the largest part of the resource that binds gives way to another part: from which batch on weights are not it. */
export function passing(): string[] {
  const it = step.value, values = now.value;
  const at = it.terms.findIndex((term) => term.resource === binding(answer.value));
  if (it.terms[at].parts.length < 2) return [];
  return it.sizes.flatMap((size) => {
    const largest = (x: number) => { const times = partsAt({ ...values, [size.name]: x })[at]; return it.terms[at].parts[times.indexOf(Math.max(...times))].label; };
    const least = Math.max(1, size.least), first = largest(least);
    let [low, high] = [least, least];
    while (high < size.most && largest(high) === first) [low, high] = [high, Math.min(2 * high, size.most)];
    if (largest(high) === first) return [];
    const from = firstWhere(low, high, 1, (x) => largest(x) !== first);
    return [`${it.terms[at].resource}: mostly ${first} below ${size.name} = ${count(from)}, mostly ${largest(from)} from there on`];
  });
}

/** The formula of a resource's time with the source of its rate. */
function formulaOf(resource: string, it: Step): string {
  const parts = it.terms.find((term) => term.resource === resource)?.parts ?? [];
  const rate = it.rates.find((each) => each.name === parts[0]?.rate), said = parts.slice(0, 3).map((part) => `(${part.amount}) / ${part.rate}`).join(" + ");
  return [`${resource} = ${said}${parts.length > 3 ? " + …" : ""}`, rate?.source].filter(Boolean).join("; ");
}

/** What a chart over a size can show, from a time and the values. */
const MEASURES: Record<string, { label: string; unit: string; of: (time: number, at: Values, work: number) => number }> = {
  time: { label: "time", unit: "s", of: (time) => time },
  throughput: { label: "throughput", unit: "FLOP/s", of: (time, _, work) => work / time },
  "tokens a second": { label: "tokens a second", unit: "", of: (time, at) => (at.batch ?? 1) * (at.prompt ?? 1) / time },
};

/** Tokens a second over the time a token takes, along the batch: each machine a curve, batches of powers of four named. */
export function tradeOff(): ChartSpec | null {
  const values = now.value, size = step.value.sizes.find((each) => each.name === "batch");
  if (!size) return null;
  const marks: Mark[] = [], all = page.value!.steps, several = beside.value.length > 1;
  for (const [series, i] of beside.value.entries()) {
    const own = { ...nowOf(all[i]), ...(i === index.value ? values : {}) }, of = functions.value[i];
    const points = sampled(size, own, of.time, (times) => bindingOf(all[i], times)).map(({ x, times, binds }) => ({ x: times.lower, y: x / times.lower, batch: x, binds, fits: all[i].capacity === null || !(times.memory > all[i].capacity!) }));
    const fitting = points.filter((each) => each.fits), shown = fitting.length > 1 ? fitting : points;
    marks.push({ mark: "line", label: all[i].on, role: "curve", series, dash: series, text: several ? all[i].on : "", x: shown.map((each) => each.x), y: shown.map((each) => each.y) });
    const here = of.time(own), at = own.batch;
    const named = [...new Set([...Array.from({ length: 12 }, (_, k) => 4 ** k).filter((b) => b >= size.least && b <= shown[shown.length - 1].batch), at])];
    for (const batch of named) {
      const times = batch === at ? here : of.time({ ...own, batch });
      marks.push({ mark: "point", kind: "bound", label: `batch ${count(batch)}${several ? ` on ${all[i].on}` : ""}`, text: batch === at ? `batch ${count(batch)}, as set${all[i].capacity !== null && times.memory > all[i].capacity! ? ": does not fit" : ""}` : several ? "" : String(batch), series, under: true, shape: batch === at ? 3 : 0,
        size: batch === at ? 1.3 : 0.6, x: times.lower, y: batch / times.lower, bound_by: bindingOf(all[i], times), on: all[i].on });
    }
  }
  const [xs, ys] = [marks.flatMap((mark) => mark.x as number | number[]), marks.flatMap((mark) => mark.y as number | number[])];
  const around = (each: number[]): [number, number] => [Math.min(...each) / 1.3, Math.max(...each) * 1.3];
  return { kind: "latency", title: "Latency against throughput", subtitle: "along the batch, as far as it fits", step: step.value.name,
    x: { label: "time per token at best", unit: "s", scale: "log", limits: around(xs), names: [] }, y: { label: "tokens a second at most", unit: "", scale: "log", limits: around(ys), names: [] },
    marks, notes: [] };
}

export function SizeChart() {
  const sizes = step.value.sizes;
  const named = (name: string) => sizes.find((each) => each.name === name);
  const size = named(over.value) ?? named(page.value?.answer?.unknown) ?? sizes[0];
  const values = now.value, it = step.value, all = page.value!.steps, others = beside.value;
  const measures = Object.keys(MEASURES).filter((each) => each !== "tokens a second" || sizes.some((s) => s.name === "batch"));
  const chosen = measures.includes(chosenMeasure.value) ? chosenMeasure.value : "time";
  const made = useMemo(() => {
    if (!size) return null;
    const points = sampled(size, values);
    if (points.filter((point) => point.times.lower >= 0).length < 2) return null;
    const { label, unit, of } = MEASURES[chosen];
    const amount = (time: number, x: number, which = index.value) => {
      const at = { ...values, [size.name]: x };
      return of(time, at, functions.value[which].work(at)[0]);
    };
    const lower = points.map((p) => amount(p.times.lower, p.x));
    const shown = lower.filter((v) => v > 0 && Number.isFinite(v));
    const floor = Math.min(...shown) / 3e3;
    const marks: Mark[] = [];
    const lines = (label: string, series: number, y: (p: Point) => number, role: string, text: string) => {
      const pieces = unbroken(points.filter((p) => y(p) > floor && Number.isFinite(y(p))), y);
      pieces.forEach((piece, i) => marks.push({ mark: "line", label, role, series, dash: series,
        text: i === pieces.length - 1 ? text : "", x: piece.map((p) => p.x), y: piece.map(y) }));
    };
    if (others.length > 1) others.forEach((which, i) => {
      const each = all[which], own = { ...nowOf(each), [size.name]: 0 };
      const at = new Map(sampled(size, own, functions.value[which].time, (t) => bindingOf(each, t)).map((p) => [p.x, p.times.lower]));
      lines(each.on, i, (p) => amount(at.get(p.x) ?? NaN, p.x, which), "curve", each.on);
    });
    else {
      lines("at best", 5, (p) => amount(p.times.lower, p.x), "lower", "");
      if (chosen === "time") it.terms.forEach(({ resource, column }, i) => lines(resource, i, (p) => p.times[column], "curve", resource));
    }
    const found = flips(size, values, points);
    found.forEach((flip) => marks.push({ mark: "ridge", label: `${flip.to} binds from ${size.name} = ${count(flip.x)}`, x: flip.x,
      y: amount(timesAt({ ...values, [size.name]: flip.x }).lower, flip.x) }));
    const every = marks.flatMap((mark) => (Array.isArray(mark.y) ? mark.y : [])), full = fullFrom(size, values, points);
    if (full !== null) marks.unshift({ mark: "region", color: "full", label: `does not fit${others.length > 1 ? ` on ${it.on}` : ""}`, x0: full, x1: points[points.length - 1].x });
    const spec: ChartSpec = { kind: "time", title: `${label} over ${size.name}`, subtitle: "",
      x: { label: size.name, unit: "", scale: "log", limits: [points[0].x, points[points.length - 1].x], names: [], whole: true },
      y: { label: `${label}${chosen === "time" ? " at best" : " at most"}`, unit, scale: "log", limits: [Math.max(Math.min(...every), floor) / 1.4, Math.max(...every) * 1.4], names: [] },
      marks, notes: ["the wide line is the largest of the resources: the least a run can take", "rings: from there on another resource binds",
        ...(full === null ? [] : [`hatched, from ${size.name} = ${count(full)} on: does not fit, needs more than the ${quantity(it.capacity!, "B")} of ${it.level} on ${it.on}`])] };
    return { spec, found, amount, full };
  }, [size, values, chosen, it, others.length, functions.value]);
  if (!made || !size) return null;
  const least = Math.max(1, size.least), here = Math.min(Math.max(values[size.name], least), size.most);
  const each = multipleOf(size.name, values), nearest = (x: number) => each * Math.max(1, Math.round(x / each));
  const lowest = (x: number) => timesAt({ ...values, [size.name]: nearest(x) });
  const read = (x: number) => {
    const whole = nearest(x), times = lowest(whole);
    const per = chosen === "time" ? quantity(times.lower, "s") : quantity(made.amount(times.lower, whole), MEASURES[chosen].unit);
    return <><p>at {size.name} = {count(whole)}: <b>{per}</b> {chosen === "time" ? "at best" : chosen === "throughput" ? "at most" : `${chosen} at most`}, {binding(times)} binds{made.full !== null && whole >= made.full && <b class="alert">, does not fit (needs {quantity(times.memory, "B")})</b>}
      {" · "}{it.terms.map((term) => `${term.resource} ${quantity(times[term.column], "s")}`).join(" · ")}</p>
      <p class="quiet">{sentence(formulaOf(binding(times), it))}</p>
      <p class="quiet">{made.found.length ? made.found.map((f) => `${f.from} → ${f.to} at ${size.name} = ${count(f.x)}`).join("; ")
        : `${binding(times)} binds at every ${size.name} shown`}</p></>;
  };
  const head = <h2><select aria-label="what the chart shows" value={chosen} onChange={(e) => settle(() => { chosenMeasure.value = e.currentTarget.value; })}>
    {measures.map((each) => <option value={each}>{each}</option>)}</select> over <select aria-label="size of the chart" value={size.name}
    onChange={(e) => settle(() => { over.value = e.currentTarget.value; })}>{sizes.map((s) => <option value={s.name}>{s.name}</option>)}</select></h2>;
  return <Chart spec={made.spec} head={head} following={{ at: here, read, y: (x) => made.amount(lowest(x).lower, nearest(x)) }} />;
}
