// An answer that moves: the card, machines side by side, time on each resource, sliders, charts, operations, sections.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Chart } from "./chart";
import { Draft } from "./draft";
import { copy, give } from "./exports";
import { isOf, STYLES } from "./marks";
import { count, parse, percent, quantity, short } from "./quantity";
import { sentence, Sections } from "./sections";
import { isSharded, Sharding } from "./sharding";
import { nextFlips, passing, SizeChart, tradeOff } from "./sizechart";
import {
  answer, asked, beside, binding, bindingOf, changed, choose, commandLine, functions, index, initial, keyOf, live, movedWords, multipleOf, now, nowOf, output, page, pending,
  partsAt, phases, pinned, place, prices, python, refused, reset, set, settle, step, untimedApart, type Mark, type Operation, type Rate, type Step, type Values,
} from "./state";

const NOTCHES = 1000;

/** A size as a number, a rate with its unit. */
function written(name: string, values: Values): string {
  const rate = step.value.rates.find((each) => each.name === name);
  return rate ? rateText(values[name], rate.unit) : count(values[name]);
}

/** The kind of price that all machines shown have that have any: those of different kinds are not compared. */
const kindOfPrice = (): string | undefined => {
  const [one, ...rest] = beside.value.map((i) => page.value!.steps[i].prices).filter((each) => Object.keys(each).length);
  return Object.keys(one ?? {}).find((kind) => rest.every((each) => kind in each));
};
const typedPrice = (of: Step): number => parse((prices.value[of.machine] ?? "").replace("$", ""));
const priceOf = (of: Step): number => typedPrice(of) || of.prices[kindOfPrice() ?? ""]?.value || NaN;

/** Where the prices of some steps are from. */
function PriceSource({ all }: { all: Step[] }) {
  const kind = kindOfPrice(), listed = all.filter((of) => !typedPrice(of) && of.prices[kind ?? ""]?.source), missing = all.some((of) => !Number.isFinite(priceOf(of)));
  const said = [...new Set(listed.map((of) => of.prices[kind!].source))];
  if (!listed.length && !missing) return null;
  return <p class="quiet">{listed.length > 0 && <>prices: the catalog's “{kind}”, from {said.join("; ")}; </>}{missing ? "type what a chip costs for an hour where there is none" : "or type your own"}</p>;
}

/** Dollars of a chip for an hour: what is typed stands until it is no price. */
function PriceField({ of, label }: { of: Step; label: string }) {
  const [wrong, setWrong] = useState(""), price = priceOf(of);
  const done = (text: string) => {
    const good = !text.trim() || parse(text.replace("$", "")) > 0;
    setWrong(good ? "" : `${text.slice(0, 40)} is no price: a number above 0, as 2.5`);
    if (good) settle(() => { prices.value = { ...prices.value, [of.machine]: text.trim() }; });
  };
  return <><Draft inputMode="decimal" size={6} aria-label={label} placeholder="?" done={done}
    value={prices.value[of.machine] || (Number.isFinite(price) ? String(price) : "")} />{wrong && <span class="alert" role="alert">{wrong}</span>}</>;
}
/** Tokens that a step makes: one of each sequence, or those of all prompts; of training the batch. */
const tokens = (of: Step, at: Values): number => (of.name === "train" ? at.batch_tokens : of.name === "prefill" ? at.batch * at.prompt : at.batch);

/** The matrix unit against its peak, or the vector unit where there is no matrix work: how much of the time it works, in which formats, and the ridge. */
function Reached() {
  const it = step.value, { lower } = answer.value, [flops, bytes] = functions.value[index.value].work(now.value), parts = partsAt(now.value);
  const place = it.rates.some((rate) => rate.place === "matrix") ? "matrix" : "vector";
  const spent = (counts: (rate: Rate) => boolean) => it.rates.filter(counts).flatMap((rate) => {
    const time = it.terms.flatMap((term, i) => term.parts.flatMap((part, k) => (part.rate === rate.name ? parts[i][k] : []))).reduce((a, b) => a + b, 0);
    return time > 0 ? [{ rate, time }] : [];
  });
  const busy = spent((rate) => rate.quantity === "flops" && rate.place === place), sum = (of: typeof busy) => of.reduce((all, each) => all + each.time, 0);
  const compute = sum(busy), memory = sum(spent((rate) => rate.quantity === "bytes")), formats = [...new Set(busy.map((each) => each.rate.dtype))];
  if (!(flops / lower > 0)) return null;
  return <p>{quantity(flops / lower, "FLOP/s")} a chip{compute > 0 && `, ${percent(compute / lower)} of the ${formats.join(" and ")} peak${formats.length > 1 ? "s" : ""}`}
    {bytes > 0 && ` · ${quantity(flops / bytes, "FLOP/B")}`}{compute > 0 && bytes > 0 && ` against a ridge of ${quantity((flops / compute) / (bytes / memory), "FLOP/B")}`}</p>;
}

function Card() {
  const times = answer.value, binds = binding(times), it = step.value, at = now.value;
  const needs = times.memory, has = it.capacity, misfit = has !== null && needs > has;
  const runs = times.lower >= 0, serving = runs && (it.name === "decode" || it.name === "prefill"), said = runs ? [...passing(), ...nextFlips()] : [];
  return (
    <section class="card answer" aria-label="Answer" aria-live="polite">{beside.value.length > 1 && <h2>{it.on}</h2>}
      {misfit ? <p class="alert">DOES NOT FIT: {it.chips > 1 ? "each chip needs" : "needs"} {quantity(needs, "B")}, {quantity(needs - has!, "B")} more than the {quantity(has!, "B")} of {it.level}</p>
        : has !== null && needs >= 0 && <p class="good">fits: {quantity(needs, "B")} of {quantity(has, "B")} in {it.level}{it.chips > 1 ? " of each chip" : ""}</p>}
      {refused.value.map((reason) => <p class="alert">{reason}</p>)}
      <p class="headline"><b id="lower" data-seconds={times.lower}>{quantity(times.lower, "s")}</b> at best{A_STEP[it.name] ?? ""}{runs && `, ${binds} binds`}</p>
      {it.spread && <p>{it.spread}</p>}
      {it.name === "train" && <Mfu />}
      {serving && <p>{quantity(tokens(it, at) / times.lower, "")} tokens/s{it.name === "decode" && ` · ${quantity(1 / times.lower, "")} tokens/s for each user`}</p>}
      <Cost />
      <Reached />
      {runs && <p>{quantity(times.op_by_op, "s")} one operation after the other · {quantity(times.upper, "s")} if nothing overlaps</p>}
      {it.expected && <p class={changed.value.length ? "stale" : ""}>expect {quantity(it.expected.value, "s")} ({quantity(it.expected.low, "s")} to{" "}
        {quantity(it.expected.high, "s")}, 80%): {it.expected.basis}{changed.value.length ? " · as asked, not as moved" : ""}</p>}
      {said.map((line) => <p class="flips">{line}</p>)}
      <WholeAnswer />
      {changed.value.length > 0 && <p class="quiet">moved: {changed.value.map((name) =>
        `${name} ${written(name, initial.value)} → ${written(name, now.value)}`).join(", ")} <button onClick={reset}>reset</button></p>}
    </section>
  );
}

/** Model FLOPs of a step against the peak, as asked: what is run again counts for nothing. */
function Mfu() {
  const of = page.value!.answer;
  if (typeof of?.mfu !== "number") return null;
  return <p class={changed.value.length ? "stale" : ""}>MFU {(100 * of.mfu).toFixed(1)}% at most · {quantity(of.tokens_per_day / 1e9, "")} billion tokens a day{changed.value.length ? " · as asked, not as moved" : ""}</p>;
}

/** The step and the sizes that it is of: ``decode at batch 64, context 8,192``. */
const atSizes = (of: Step, at: Values): string =>
  `${of.name === "train" ? "a step" : of.name} at ${of.sizes.map(({ name }) => `${name.replace(/_/g, " ")} ${count(at[name])}`).join(", ")}`;

/** Dollars for a million tokens of a step, at the floor. */
const costOf = (of: Step, times: Values, at: Values): number => ((times.lower * of.chips * priceOf(of)) / 3600 / tokens(of, at)) * 1e6;
const makesTokens = (of: Step, at: Values): boolean => of.name !== "bound" && of.name !== "formula" && tokens(of, at) > 0;
const dollars = (value: number): string => `$${value >= 1 && value < 1000 ? value.toFixed(2) : Number(value.toPrecision(3))}`;

/** What a million tokens cost at the floor, where a price is known. */
function Cost() {
  const it = step.value, at = now.value;
  if (!makesTokens(it, at)) return null;
  const misfit = it.capacity !== null && answer.value.memory > it.capacity, cost = misfit ? NaN : costOf(it, answer.value, at);
  return <>
    <p class="inline" id="cost">{Number.isFinite(cost) && <><b>{dollars(cost)}</b> for a million tokens: {atSizes(it, at)}, on {it.on}, at the floor, where a chip costs </>}
      {misfit ? "no cost of a million tokens where it does not fit; a chip costs " : !Number.isFinite(cost) && "cost of a million tokens, where a chip costs "}$ <PriceField of={it} label="price of a chip for an hour" /> an hour</p>
    {beside.value.length < 2 && <PriceSource all={[it]} />}</>;
}

/** The time of answers of several tokens after their prompts, where both phases were asked. */
function WholeAnswer() {
  const it = step.value, of = (name: string) => page.value!.steps.findIndex((each) => each.name === name && each.on === it.on);
  const [first, later] = [of("prefill"), of("decode")];
  if (first < 0 || later < 0) return null;
  const sizes = nowOf(page.value!.steps[first]), decode = nowOf(page.value!.steps[later]);
  const start = functions.value[first].time(sizes).lower, many = Math.max(1, Math.round(output.value)), before = (sizes.past ?? 0) + sizes.prompt;
  let total = start;
  for (let i = 0; i < many - 1; i++) total += functions.value[later].time({ ...decode, batch: sizes.batch, context: before + i }).lower;
  return <p><label class="inline">answers of <input type="range" aria-label="tokens of an answer" min={0} max={13} step={0.01} value={Math.log2(output.value)}
    onInput={(e) => settle(() => { output.value = Math.round(2 ** Number(e.currentTarget.value)); })} /> {count(output.value)} tokens</label>{" "}
    to prompts of {count(before)}, batch {count(sizes.batch)}: <span id="whole" data-seconds={total}>{quantity(total, "s")}</span>, the first token after {quantity(start, "s")}</p>;
}

/** What a step's time is of, by its name. */
const A_STEP: Record<string, string> = { decode: " a token", prefill: " to the first token", train: " a step" };

const inARow = (names: string[]): string => (names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}` : names[0] ?? "");

/** Times and costs of at most so many times the least are as good as it. */
const ALIKE = 1.002;

/** Machines side by side: the same step, the fastest marked, and above which price another is cheaper. */
function Beside() {
  const untimed = untimedApart(beside.value.map((i) => page.value!.steps[i]));
  const all = beside.value.map((i, at) => {
    const of = page.value!.steps[i], values = nowOf(of);
    return { i, of, times: functions.value[i].time(values), untimed: untimed[at], runs: functions.value[i].holds(values).every(Boolean) };
  });
  if (all.length < 2) return null;
  const fits = (each: (typeof all)[0]) => each.of.capacity === null || !(each.times.memory > each.of.capacity);
  const runs = (each: (typeof all)[0]) => fits(each) && each.runs;
  // what cannot be run, or is timed in part, is neither the fastest nor the cheapest; more work is no slower machine
  const able = all.filter((each) => runs(each) && !each.untimed.length), fastest = (some: typeof all) => Math.min(...some.map((each) => each.times.lower));
  const works = [...new Set(all.map((each) => each.of.work))], about = (work: string, some: typeof all) => some.filter((each) => each.of.work === work);
  const bests = Object.fromEntries(works.map((work) => [work, fastest(about(work, able).length ? about(work, able) : about(work, all))]));
  const opens = Object.fromEntries(works.map((work) => [work, fastest(about(work, all).filter((each) => runs(each) && each.untimed.length)) < bests[work]]));
  const isBest = (each: (typeof all)[0]) => able.includes(each) && !opens[each.of.work] && each.times.lower <= bests[each.of.work] * ALIKE;
  const verdict = (work: string): string => {
    const own = about(work, all), whole = about(work, able), rest = whole.filter((each) => each.times.lower > bests[work] * ALIKE);
    const first = whole.filter((each) => !rest.includes(each)), those = opens[work] ? " of those timed whole" : "";
    const named = (each: (typeof all)[0]) => each.of.on.replace(` ${work}`, ""), next = rest.sort((a, b) => a.times.lower - b.times.lower)[0];
    const names = inARow(first.map(named)), time = `${quantity(bests[work], "s")}${A_STEP[step.value.name] ?? ""} at best`, ha = first.length > 1 ? "have" : "has";
    const said = !first.length ? (own.some(runs) ? "none of those that run is timed whole" : `none of them ${own.every(fits) ? "runs" : "fits"}`)
      : next ? `${names} ${ha} the lowest floor${those}: ${time}; ${named(next)} takes ${(next.times.lower / bests[work]).toPrecision(3)}× as long`
      : first.length > 1 ? `${names} have the same floor${those}: ${time}` : `${names} alone ${own.every(runs) ? "is timed whole" : "can run it"}: ${time}`;
    return work ? `${work}: ${said}` : said;
  };
  const part = (each: (typeof all)[0]) => (each.untimed.length ? "≥ " : "");
  const chips = all.some((each) => each.of.chips > 1) || step.value.name !== "bound";
  const at = nowOf(step.value), priced = makesTokens(step.value, at);
  const cost = (each: (typeof all)[0]) => priced ? costOf(each.of, each.times, nowOf(each.of)) : each.times.lower * each.of.chips * priceOf(each.of);
  const known = (work: string) => about(work, able).filter((each) => Number.isFinite(priceOf(each.of))), least = (work: string) => Math.min(...known(work).map(cost));
  const cheapest = ({ of }: (typeof all)[0]) => known(of.work).length > (known(of.work).length < about(of.work, able).length ? 1 : 0)
    && !about(of.work, all).some((each) => runs(each) && each.untimed.length > 0 && cost(each) < least(of.work));
  const roomy = all.every(runs) ? "spare" : "";  // on a phone, memory is said where it is too small
  const [one, ...rest] = able, what = priced ? atSizes(step.value, at) : "this";
  return (
    <section class="card beside" aria-label="Machines side by side">
      {works.map((work) => <p class={`${works.length > 1 ? "flips" : "headline"} verdict`}>{verdict(work)}</p>)}
      {changed.value.length > 0 && <p class="quiet">as moved</p>}
      <h2>Side by side <small>{priced && `${what}, at the floor`}</small></h2>
      <div class="scroll" tabIndex={0} role="group" aria-label="Machines side by side"><table><thead><tr><th class="left">machine</th><th>at best</th><th class="spare">× least</th><th class="left spare">binds</th><th class={roomy}>memory</th><th>$ chip·h</th><th>{priced ? "$ / 1M tokens" : "cost"}</th></tr></thead>
        <tbody>{works.flatMap((work) => about(work, all)).map((each) => <tr class={each.i === index.value ? "pinned" : ""}>
          <td class="left"><button class="key" onClick={() => choose(each.of.name, all.indexOf(each))}>{each.of.on}</button></td>
          <td>{part(each)}{quantity(each.times.lower, "s")}{isBest(each) ? " ★" : ""}</td><td class="spare">{part(each)}{(each.times.lower / bests[each.of.work]).toFixed(2)}×</td>
          <td class="left spare">{bindingOf(each.of, each.times)}</td>
          <td class={runs(each) ? roomy : "alert"}>{each.times.memory === undefined ? "" : <>{quantity(each.times.memory, "B")}{!runs(each) && <><br />does not {fits(each) ? "run" : "fit"}</>}</>}</td>
          <td><PriceField of={each.of} label={`price of ${each.of.on}`} /></td>
          <td>{runs(each) && Number.isFinite(cost(each)) && (priced || known(each.of.work).length > 1) && <>{part(each)}{priced ? dollars(cost(each)) : `${(cost(each) / least(each.of.work)).toFixed(2)}×`}{cheapest(each) && able.includes(each) && cost(each) <= least(each.of.work) * ALIKE && <span class="mark"> cheapest</span>}</>}</td></tr>)}</tbody></table></div>
      {all.filter((each) => each.untimed.length).map((each) => <p class="alert">not ranked: {each.of.on}: {each.untimed.join("; ")}</p>)}
      {chips && works.length === 1 && rest.map((other) => {
        const ratio = (one.times.lower * one.of.chips) / (other.times.lower * other.of.chips), price = priceOf(one.of);
        if (Math.abs(ratio - 1) < 5e-4) return <p class="flips">a chip of {other.of.on} does as much as one of {one.of.on}: the one that costs less an hour is cheaper</p>;
        return <p class="flips">{other.of.on} is cheaper than {one.of.on} as long as a chip of it costs less than {Number.isFinite(price)
          ? `${dollars(ratio * price)} an hour: ${ratio.toPrecision(3)} times the $${price} of a chip of ${one.of.on}` : `${ratio.toPrecision(3)} times a chip of ${one.of.on}`}</p>;
      })}
      <PriceSource all={all.map((each) => each.of)} />
    </section>);
}

function Resources() {
  const times = answer.value, it = step.value, busiest = Math.max(...it.terms.map((t) => times[t.column])), waits = times.lower - busiest;
  const binds = times.lower >= 0 ? binding(times) : "", parts = partsAt(now.value), most = Math.max(busiest, waits) || 1;
  return (
    <section class="card" aria-label="Time on each resource">
      <h2>Time on each resource</h2>
      {it.terms.map((term, i) => {
        const time = times[term.column];
        return (
          <details class={`term ${term.resource === binds ? "lit" : ""}`} open={term.resource === binds}>
            <summary>
              <span class="name">{term.resource}{term.resource === binds ? " (binds)" : ""}</span>
              <span class="bar">{parts[i].map((part, k) =>
                <i title={`${term.parts[k].label} ${quantity(part, "s")}`} style={{ width: `${(100 * part) / most}%`, background: STYLES[i % 6][0], opacity: 1 - 0.6 * (k / parts[i].length) }} />)}</span>
              <span class="figure">{quantity(time, "s")} · {percent(time / times.lower)}</span>
            </summary>
            <ul>{term.parts.map((part, k) => <li><b>{part.label}</b> {quantity(parts[i][k], "s")} = <span class="formula"><span class="top">{mathematics(part.amount)}</span><span class="under"><Symbol name={part.rate} /></span></span>
              <small> {AMOUNTS[part.unit] ?? part.unit}{part.operations.length ? ` of ${part.operations.slice(0, 6).join(", ")}${part.operations.length > 6 ? ` and ${part.operations.length - 6} more` : ""}` : ""}</small></li>)}</ul>
            <p class="quiet">{sentence(it.rates.filter((rate) => term.parts.some((part) => part.rate === rate.name)).map((rate) => `${rate.name} = ${quantity(now.value[rate.name], rate.unit)}${rate.unit === "hops/s" ? ` (${rateText(now.value[rate.name], rate.unit)})` : ""}${rate.source ? `, ${rate.source}` : ""}`).join("; "))}</p>
          </details>
        );
      })}
      {waits > 1e-6 * times.lower && <details class="term">
        <summary>
          <span class="name">waiting</span>
          <span class="bar"><i style={{ width: `${(100 * waits) / most}%`, background: "var(--quiet)", opacity: 0.5 }} /></span>
          <span class="figure">{quantity(waits, "s")} · {percent(waits / times.lower)}</span>
        </summary>
        <p class="quiet">The stage that takes longest waits for the others of its pipeline: more microbatches make it less.</p>
      </details>}
    </section>
  );
}

/** A formula as mathematics: no signs in products but between numbers, letters slanted, powers raised. */
function mathematics(text: string): ComponentChildren {
  const tokens = text.split(/(\*\*(?:[\d.]+|[A-Za-z_]\w*|\([^()]*\))|\*\*|\*|[A-Za-z_]\w*)/);
  return tokens.map((token, at) => {
    if (token === "*") return /[\d.]$/.test(tokens[at - 1]) && /^[\d.]/.test(tokens[at + 1]) ? "\u2009·\u2009" : "\u2009";
    if (token === "**") return "^";
    if (token.startsWith("**")) return <sup>{mathematics(token.slice(2).replace(/^\((.*)\)$/, "$1"))}</sup>;
    return /^[A-Za-z_]\w*$/.test(token) && !/^(Max|Min|ceiling|floor|log|if|else)$/.test(token) ? <Symbol name={token} /> : token;
  });
}

function Symbol({ name }: { name: string }) {
  const at = name.length > 2 && name[1] === "_" ? 1 : -1;
  return at < 0 ? <i>{name.replace(/_/g, " ")}</i> : <i>{name.slice(0, 1)}<sub>{name.slice(2).replace(/_/g, " ")}</sub></i>;
}

/** What a rate is, by its unit. */
const RATES: Record<string, string> = { "FLOP/s": "peak", "B/s": "bandwidth" };

/** What the formula of a time has over its rate. */
const AMOUNTS: Record<string, string> = { B: "bytes", FLOP: "FLOPs" };

interface Knob { name: string; key: string; value: number; least: number; most: number; whole: boolean; unit: string; beside: string }

/** A rate with its unit; of hops the time of one. */
const rateText = (value: number, unit: string): string => (unit === "hops/s" ? `${quantity(1 / value, "s")} a hop` : quantity(value, unit));

/** A slider with a field beside it. A latency is moved in nanoseconds: what the formula holds is the rate of hops. */
function Slider({ knob }: { knob: Knob }) {
  const latency = knob.unit === "hops/s", turned = (x: number) => (latency ? 1e9 / x : x);
  const [least, most] = latency ? [turned(knob.most), turned(knob.least)] : [knob.least, knob.most];
  const rate = now.value[knob.name], value = latency ? Number(turned(rate).toPrecision(6)) : rate, low = Math.max(least, knob.whole ? 1 : least);
  const each = knob.whole ? multipleOf(knob.name, now.value) : 1;
  const place = (x: number) => Math.round((NOTCHES * Math.log(Math.max(x, low) / low)) / Math.log(most / low));
  const at = (notch: number) => {
    const x = low * (most / low) ** (notch / NOTCHES);
    return knob.whole ? each * Math.max(Math.round(x / each), 1) : Number(x.toPrecision(4));
  };
  const [wrong, setWrong] = useState("");
  const typed = (text: string) => {
    const read = parse(text);
    const good = (Number.isFinite(read) && read > 0 && (!knob.whole || Number.isInteger(read))) || (knob.least === 0 && read === 0);
    setWrong(good ? "" : `${text.slice(0, 40)} is not ${knob.whole ? "a whole number from 1 on" : latency ? "a number of nanoseconds above 0" : "a rate above 0"}`);
    if (good) set(knob.key, turned(read));
  };
  return (
    <div class="knob">
      <span class="name">{knob.beside || knob.name.replace(/_/g, " ")}{knob.beside && <small> <Symbol name={knob.name} /></small>}</span>
      <input type="range" aria-label={knob.name} min={0} max={NOTCHES} value={place(value)} aria-valuetext={rateText(rate, knob.unit)}
        onInput={(e) => { setWrong(""); set(knob.key, turned(at(Number(e.currentTarget.value)))); }} />
      <Draft inputMode="decimal" aria-label={`${knob.name}, exactly`} value={short(value)} done={typed} />
      <span class={`figure ${knob.whole ? "plain" : ""}`}>{knob.whole ? count(value) : latency ? "ns a hop" : quantity(value, knob.unit)}</span>
      {wrong && <span class="alert" role="alert">{wrong}</span>}
    </div>
  );
}

function Knobs() {
  const it = step.value;
  return (
    <section class="card" aria-label="Sizes and rates">
      {it.sizes.length > 0 && <h2>Sizes</h2>}
      {it.sizes.map((size) => <Slider key={`${index.value}${size.name}`} knob={{ ...size, key: size.name, whole: true, unit: "", beside: "" }} />)}
      <details class="drawer" open><summary><b>Rates</b></summary>
      {it.rates.map((rate) => <Slider key={`${index.value}${rate.name}`} knob={{
        name: rate.name, key: keyOf(it, rate.name), value: rate.value, least: rate.value / 10, most: rate.value * 10, whole: false, unit: rate.unit,
        beside: RATES[rate.unit] && !rate.resource.includes("latency") ? `${rate.resource} ${RATES[rate.unit]}` : rate.resource }} />)}</details>
      <p class="quiet">What has no slider (layout, formats, structure) is fixed in this answer.</p>
    </section>
  );
}

interface Node { name: string; time: number; children: Map<string, Node>; of?: Operation }

/** Operations by module, the one that takes most first; a module with one part shows that part. */
function Modules({ of }: { of: Step }) {
  if (of.operations.length < 2) return null;
  const root: Node = { name: "", time: 0, children: new Map() };
  for (const each of of.operations) {
    let node = root;
    node.time += each.time;
    for (const word of each.where.split(".")) {
      if (!node.children.has(word)) node.children.set(word, { name: word, time: 0, children: new Map() });
      node = node.children.get(word)!;
      node.time += each.time;
    }
    node.of = each;
  }
  const most = top(root);
  return (
    <section class={`card ${changed.value.length ? "stale-block" : ""}`} aria-label="Time by module"><h2>Time by module <small>{of.name === "bound" ? "" : of.name}{changed.value.length ? ", as asked" : ""}</small></h2>
      {most && <p><b>{most.name}</b> takes most: {percent(most.time / root.time)} of {quantity(root.time, "s")}, which is one operation after the other{timesOf(of).op_by_op > 1.0005 * root.time && ", without what a stage waits for others"}.
        {root.time > 1.0005 * asBest(of) && ` At best ${quantity(asBest(of), "s")}: there, operations that wait for different resources run at once.`}</p>}
      <Branch node={root} whole={root.time} deep={0} /></section>);
}

/** The times of a step as asked. */
const timesOf = (of: Step) => functions.value[page.value!.steps.indexOf(of)].time(asked(of));

/** The least time of a step as asked, as its card says it. */
const asBest = (of: Step): number => timesOf(of).lower;

/** The smallest module that takes most of the time: looked for below layers, which all models have. */
function top(root: Node): Node | null {
  const sorted = [...root.children.values()].sort((a, b) => b.time - a.time);
  const first = sorted[0];
  if (!first) return null;
  return first.children.size && first.time > 0.8 * root.time ? top(first) : first;
}

const isPinned = (name: string): boolean => pinned.value !== "" && isOf({ mark: "point", label: pinned.value }, name);

function Branch({ node, whole, deep }: { node: Node; whole: number; deep: number }) {
  const children = [...node.children.values()].sort((a, b) => b.time - a.time);
  return <ul class="tree">{children.slice(0, 200).map((each) => {
    const line = <><span class="name">{each.name}</span><span class="bar"><i style={{ width: `${(100 * each.time) / whole}%`, background: "var(--a)" }} /></span>
      <span class="figure">{quantity(each.time, "s")} · {percent(each.time / whole)}{each.of ? ` · ${each.of.binds}` : ""}</span></>;
    return <li>{each.children.size ? <details open={deep < 2 && each.time > 0.15 * whole}><summary class="leaf">{line}</summary><Branch node={each} whole={whole} deep={deep + 1} /></details> : <button class={`leaf ${isPinned(each.name) ? "pinned" : ""}`} onClick={() => { pinned.value = isPinned(each.name) ? "" : each.name; }}>{line}</button>}</li>;
  })}</ul>;
}

/** Latency against throughput: a point a batch, the one that is set among them. */
function Latency() {
  const spec = tradeOff();
  return spec && <Chart spec={spec} />;
}

/** The answer as moved, a point in a roofline whose other points are as asked. */
function movedPoint(): Mark[] {
  if (!live.value || !changed.value.length) return [];
  const [flops, bytes] = functions.value[index.value].work(now.value), time = answer.value.lower;
  return flops / time > 0 && bytes > 0 ? [{ mark: "point", label: "as moved", text: "as moved", x: flops / bytes, y: flops / time }] : [];
}

function download(): void {
  give("roofline.json", JSON.stringify(page.value!.answer, null, 2), "application/json");
}

function Foot() {
  const [said, setSaid] = useState(""), words = page.value!.command;
  const take = (text: string, what: string) => { void copy(text); setSaid(`${what} copied`); };
  return (
    <p class="row foot"><button onClick={() => take(location.href, "link")}>copy link</button>
      {words && <button onClick={() => take(commandLine(movedWords(words)), "command line")}>copy as command line</button>}
      {words && <button onClick={() => take(python(movedWords(words)), "Python")}>copy as Python</button>}
      {page.value!.answer && <button onClick={download}>the answer as JSON</button>}
      <span role="status">{said}</span></p>);
}

/** Everything about an answer; parts that its formula does not hold are grey while it is moved. */
export function AnswerView({ advice }: { advice?: JSX.Element }) {
  const it = page.value;
  if (!it) return null;
  const stale = changed.value.length > 0 || pending.value, moving = movedPoint();
  const lists = it.sections.filter((each) => each.kind === "listing" && each.tone === "quiet");
  const found = it.answer?.schema === "roofline/solution/1" ? it.sections.filter((each) => each.kind === "pairs") : [];
  const table = it.sections.findIndex((each) => each.kind === "table");
  const lead = live.value || table < 0 ? [] : it.sections.slice(0, table).filter((each) => each.kind === "sentences" && each.lines.some(Boolean));
  const last = lead[lead.length - 1];
  if (lead.length > 1 && last === it.sections[table - 1] && last.kind === "sentences" && last.tone === "strong") lead.pop(); // the table's title
  const rest = it.sections.filter((each) => ![...lists, ...found, ...lead].includes(each));
  return (
    <>
      <header><h1>{sentence(it.title)}</h1><p>{it.beside}</p>
        {(phases.value.length > 1 || beside.value.length > 1) && live.value && <div class="tabs">
          {phases.value.length > 1 && phases.value.map((name) => <button aria-pressed={name === step.value.name} onClick={() => choose(name)}>{name}</button>)}
          {beside.value.length > 1 && beside.value.map((i, k) => <button aria-pressed={i === index.value} onClick={() => choose(step.value.name, k)}>{it.steps[i].on}</button>)}</div>}
      </header>
      {found.length > 0 && <section class={`card ${stale ? "stale-block" : ""}`} aria-label="Solution">{stale && <p class="quiet">as asked, not as moved:</p>}<Sections sections={found} /></section>}
      {live.value && <><Beside /><div class="columns"><div><Card /></div><div><Knobs /></div></div><Resources />
        <SizeChart key={`${step.value.name}${place.value}`} /></>}
      {lead.length > 0 && <section class="card" aria-label="Answer"><Sections sections={lead} /></section>}
      {!live.value && isSharded(it.answer) && <Sharding answer={it.answer} />}
      {live.value && step.value.name === "decode" && <Latency />}
      {advice}
      {pending.value && <p class="card quiet" role="status">charts and operations are being worked out …</p>}
      {it.charts.filter((spec) => !live.value || ((!spec.step || spec.step === step.value.name) && (!spec.on || spec.on === step.value.on))).map((spec) => <div class={stale ? "as-asked" : ""}>{changed.value.length > 0 && spec.kind === "bars" && <p class="quiet">as asked, not as moved:</p>}<Chart key={spec.title + spec.subtitle} spec={spec} extra={spec.kind === "roofline" ? moving : []} /></div>)}
      {live.value && <Modules of={step.value} />}
      {rest.some((each) => each.kind !== "headline") && (live.value ? <details class={`card ${stale ? "stale-block" : ""}`} id="asked"><summary>The whole answer{stale ? ", as asked" : ""}</summary><Sections sections={rest} /></details>
        : <section class="card" id="asked"><Sections sections={rest} /></section>)}
      {lists.length > 0 && <section class="card"><Sections sections={[{ kind: "sentences", lines: [], tone: "" }, ...lists]} /></section>}
      <Foot />
    </>
  );
}
