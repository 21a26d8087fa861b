// A report: an answer that moves with its sizes and rates, in one file, without a network.
import { render } from "preact";
import { useState } from "preact/hooks";
import { Chart, STYLES } from "./chart";
import { count, parse, percent, quantity, short } from "./quantity";
import { answer, binding, changed, choose, chosen, initial, now, page, partsAt, refused, reset, set, step, type Values } from "./state";

const NOTCHES = 1000;

/** A size as a number, a rate with its unit. */
function written(name: string, values: Values): string {
  const rate = step.value.rates.find((each) => each.name === name);
  return rate ? quantity(values[name], rate.unit) : count(values[name]);
}

function Card() {
  const times = answer.value, binds = binding(times), it = step.value;
  const needs = times.memory, has = it.capacity;
  const misfit = has !== null && needs > has;
  return (
    <section class="card answer" aria-label="Answer" aria-live="polite">
      {misfit && <p class="alert">DOES NOT FIT: needs {quantity(needs, "B")}, {it.level} has {quantity(has!, "B")}</p>}
      {refused.value.map((reason) => <p class="alert">not valid here: {reason}</p>)}
      <p class="headline"><b id="lower">{quantity(times.lower, "s")}</b> at best, {binds} binds</p>
      <p>{quantity(times.op_by_op, "s")} operation by operation · {quantity(times.upper, "s")} if nothing overlaps
        {needs !== undefined && ` · ${quantity(needs, "B")}${has === null ? "" : ` of ${quantity(has, "B")}`} of memory`}</p>
      {it.expected && <p class={changed.value.length ? "stale" : ""}>expect {quantity(it.expected.value, "s")} ({quantity(it.expected.low, "s")} to{" "}
        {quantity(it.expected.high, "s")}, 80 %): {it.expected.basis}{changed.value.length ? " · as asked, not as moved" : ""}</p>}
      {changed.value.length > 0 && <p class="quiet">moved: {changed.value.map((name) =>
        `${name} ${written(name, initial.value)} → ${written(name, now.value)}`).join(", ")} <button onClick={reset}>reset</button></p>}
    </section>
  );
}

function Bars() {
  const times = answer.value, most = Math.max(...step.value.terms.map((t) => times[`time_${t.resource}`])) || 1;
  const binds = binding(times), parts = partsAt(now.value);
  return (
    <section class="card" aria-label="Time on each resource">
      <h2>Time on each resource</h2>
      {step.value.terms.map((term, i) => {
        const time = times[`time_${term.resource}`];
        return (
          <details class="term" open={term.resource === binds}>
            <summary>
              <span class="name">{term.resource}{term.resource === binds ? " (binds)" : ""}</span>
              <span class="bar">{parts[i].map((part, k) =>
                <i style={{ width: `${(100 * part) / most}%`, background: STYLES[i % 6][0], opacity: 1 - 0.6 * (k / parts[i].length) }} />)}</span>
              <span class="figure">{quantity(time, "s")} · {percent(time / times.lower)}</span>
            </summary>
            <ul>{term.parts.map((part, k) => <li><b>{part.label}</b> {quantity(parts[i][k], "s")}: <code>{part.amount}</code> {part.unit} over <code>{part.rate}</code>
              {part.operations.length ? ` · ${part.operations.join(", ")}` : ""}</li>)}</ul>
          </details>
        );
      })}
      <Passing />
    </section>
  );
}

/** Where the largest part of the resource that binds gives way to another part: from which batch on weights are not it. */
function Passing() {
  const it = step.value, values = now.value;
  const index = it.terms.findIndex((term) => term.resource === binding(answer.value));
  if (it.terms[index].parts.length < 2) return null;
  const largest = (at: Values) => {
    const times = partsAt(at)[index];
    return times.indexOf(Math.max(...times));
  };
  const lines = it.sizes.flatMap((size) => {
    const name = (k: number) => it.terms[index].parts[k].label;
    let low = Math.max(1, size.least);
    const first = largest({ ...values, [size.name]: low });
    let high = low;
    while (high < size.most && largest({ ...values, [size.name]: high }) === first) [low, high] = [high, Math.min(2 * high, size.most)];
    const next = largest({ ...values, [size.name]: high });
    if (next === first) return [];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (largest({ ...values, [size.name]: middle }) === first) low = middle;
      else high = middle;
    }
    return [`${name(first)} are most of it below ${size.name} = ${count(high)}, ${name(next)} from there on`];
  });
  return lines.length ? <p class="quiet">{it.terms[index].resource}: {lines.join("; ")}</p> : null;
}

interface Knob { name: string; value: number; least: number; most: number; whole: boolean; unit: string; beside: string }

function Slider({ knob }: { knob: Knob }) {
  const value = now.value[knob.name], low = Math.max(knob.least, knob.whole ? 1 : knob.least);
  const place = (x: number) => Math.round((NOTCHES * Math.log(Math.max(x, low) / low)) / Math.log(knob.most / low));
  const at = (notch: number) => {
    const x = low * (knob.most / low) ** (notch / NOTCHES);
    return knob.whole ? Math.round(x) : Number(x.toPrecision(4));
  };
  const [wrong, setWrong] = useState("");
  const typed = (text: string) => {
    const read = parse(text);
    const good = Number.isFinite(read) && read > 0 && (!knob.whole || Number.isInteger(read) ) || (knob.least === 0 && read === 0);
    setWrong(good ? "" : `${text.slice(0, 40)} is not ${knob.whole ? "a whole number from 1 on" : "a rate above 0"}`);
    if (good) set(knob.name, read);
  };
  return (
    <label class="knob">
      <span class="name">{knob.name}<small> {knob.beside}</small></span>
      <input type="range" min={0} max={NOTCHES} value={place(value)} aria-valuetext={quantity(value, knob.unit)}
        onInput={(e) => { setWrong(""); set(knob.name, at(Number(e.currentTarget.value))); }} />
      <input type="text" inputMode="decimal" aria-label={`${knob.name}, exactly`} value={short(value)}
        onChange={(e) => typed(e.currentTarget.value)} />
      <span class="figure">{knob.whole ? count(value) : quantity(value, knob.unit)}</span>
      {wrong && <span class="alert" role="alert">{wrong}</span>}
    </label>
  );
}

function Knobs() {
  const it = step.value;
  return (
    <section class="card" aria-label="Sizes and rates">
      <h2>Sizes</h2>
      {it.sizes.map((size) => <Slider key={`${chosen.value}${size.name}`} knob={{ ...size, whole: true, unit: "", beside: "" }} />)}
      <h2>Rates</h2>
      {it.rates.map((rate) => <Slider key={`${chosen.value}${rate.name}`} knob={{
        name: rate.name, value: rate.value, least: rate.value / 10, most: rate.value * 10, whole: false, unit: rate.unit,
        beside: rate.resource }} />)}
      <p class="quiet">What is not here (the layout, the formats, the structure) is fixed in this report.</p>
    </section>
  );
}

function download(): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(page.answer, null, 2)], { type: "application/json" }));
  link.download = "roofline.json";
  link.click();
  URL.revokeObjectURL(link.href);
}

function Report() {
  return (
    <>
      <header><h1>{page.title}</h1><p>{page.beside}</p>
        {page.steps.length > 1 && <div role="tablist">{page.steps.map((each, i) =>
          <button role="tab" aria-selected={i === chosen.value} onClick={() => choose(i)}>{each.name}</button>)}</div>}
      </header>
      <div class="columns">
        <div><Card /><Bars /></div>
        <div><Knobs /></div>
      </div>
      <Chart key={chosen.value} />
      <p class="row"><button onClick={() => navigator.clipboard?.writeText(location.href)}>copy link</button>
        <button onClick={download}>the answer as JSON</button></p>
    </>
  );
}

render(<Report />, document.getElementById("live")!);
