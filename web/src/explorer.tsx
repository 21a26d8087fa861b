// The explorer: pages that ask the server, and show answers with the components of a report.
import { signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { AnswerView } from "./answer";
import { askData, askPage, catalogOf, sendFile, Wrong, type Catalog, type Question } from "./api";
import { Chart } from "./chart";
import { Draft } from "./draft";
import { FieldView } from "./fields";
import { shortened } from "./marks";
import { percent, quantity } from "./quantity";
import { addressOf, change, keepSettings, list, read, route, ROUTES, state, withOption, withSize, type State } from "./routes";
import { Sections, Sortable } from "./sections";
import { answer, asked, beside, functions, index, keyOf, live, listeners, moved, now, page, pending, pinned, place, settings, step, takeSettings, type Page, type Section } from "./state";

const catalog = signal<Catalog | null>(null);
const wrong = signal("");
const busy = signal(false);
/** Whether something was asked that is not answered yet; ``busy`` says it to a reader a moment later. */
const asking = signal(true);
/** The question that the page shows, its time before it was changed, and the line of advice by which it is being changed. */
const shown = signal("");
const before = signal<{ by: string; time: number; work: number; name: string; many: number } | null>(null);
let applied = "";

const key = (question: Question | null): string => JSON.stringify([route.value.key, question]);

/** Ask what the address says, unless that is shown: what moves first, the rest of the answer after it. */
async function ask(): Promise<void> {
  const at = route.value, question = at.ask(state.value), wanted = key(question);
  if (at.key === "chips") return;
  if (wanted === shown.value) { asking.value = false; return; }
  if (question === null) { page.value = null; shown.value = wanted; wrong.value = ""; asking.value = false; return; }
  asking.value = true;
  const slow = setTimeout(() => { busy.value = true; }, 200);
  try {
    const found = await askPage(at.command, question, "page", at.live ? "live" : "page");
    if (found === null || route.value !== at) return;
    const old = page.value, moves = found.page.steps.length > 0;
    if (at.live && old) found.page = { ...found.page, sections: old.sections, charts: old.charts, answer: old.answer };
    if (!at.live || moves) take(found, wanted, at.key);
    if (!at.live) return;
    pending.value = true;
    const rest = await askPage(at.command, question, "page", moves ? "rest" : "page");
    if (rest === null || route.value !== at) return;
    if (moves) page.value = { ...rest.page, steps: page.value!.steps };
    else take(rest, wanted, at.key);
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    wrong.value = error.message;
    shown.value = wanted;
  } finally {
    clearTimeout(slow);
    if (key(route.value.ask(state.value)) === wanted || route.value !== at) busy.value = pending.value = asking.value = false;
  }
}

/** Show an answer: what was moved meanwhile stays moved, sliders keep their stretch. */
function take(found: { page: Page; functions: any[] }, wanted: string, of: string): void {
  const old = page.value, had = timeNow();
  const same = old !== null && shown.value.startsWith(`["${of}"`);
  if (same) for (const each of found.page.steps) for (const size of each.sizes) {
    const known = old.steps.flatMap((other) => other.sizes).find((other) => other.name === size.name);
    if (known) size.most = Math.max(known.most, size.most);
  }
  const kept = Object.fromEntries(Object.entries(moved.value).filter(([name, value]) =>
    found.page.steps.some((each) => asked(each)[name.split("@")[0]] !== value && name.split("@")[0] in asked(each))));
  functions.value = [];
  page.value = found.page;
  moved.value = kept;
  functions.value = found.functions;
  before.value = same && had && !sliding ? had : null;
  sliding = false;
  applied = "";
  shown.value = wanted;
  wrong.value = "";
  document.title = `${found.page.title} · roofline`;
  const open = live.value ? step.value.sizes.filter((size) => !size.given) : [];
  if (open.length) change(open.reduce<State>((fields, size) => ({ ...fields, ...withSizes(fields, size.name, size.value) }), {}), { step: false });
}

function withSizes(fields: State, name: string, value: number): State {
  const found = withSize(name, value) ?? {};
  return fields.sizes && found.sizes ? { sizes: `${fields.sizes} ${name}=${value}` } : found;
}

/** A slider moves the page at once; the parts that its formula does not hold are asked again when it rests. */
let rest = 0, sliding = false;
const touched = new Set<string>();
listeners.push(() => {
  if (live.value) for (const { name } of step.value.sizes) {
    if (name in moved.value) touched.add(name);
    const fields = touched.has(name) ? withSize(name, now.value[name]) : null;
    if (fields) change(fields, { step: false });
  }
  keepSettings({ ...settings(), ...rates() });
  sliding = true;
  clearTimeout(rest);
  rest = window.setTimeout(() => void ask(), 600);
});

/** Rates that were moved, as words of the address. */
const rates = (): State => Object.fromEntries(Object.entries(moved.value)
  .filter(([name]) => live.value && page.value!.steps.some((each) => each.rates.some((rate) => rate.name === name.split("@")[0])))
  .map(([name, value]) => [`.${name}`, String(value)]));

/** What such words say of rates; those of other settings name nothing that moves, and are left out with the answer. */
const ratesSaid = (): Record<string, number> => Object.fromEntries(Object.entries(state.value)
  .filter(([name, text]) => /^\.\w+(@.*)?$/.test(name) && text.trim() && Number(text) >= 0 && Number.isFinite(Number(text)))
  .map(([name, text]) => [name.slice(1), Number(text)]));

function Ask() {
  const at = route.value;
  return <form class="card ask" onSubmit={(e) => e.preventDefault()} aria-label="Question">
    {at.fields.map((field) => <FieldView key={at.key + field.key} field={field} value={state.value[field.key] ?? ""} catalog={catalog.value}
      change={(text) => { clearTimeout(rest); sliding = false; applied = ""; change({ [field.key]: text }); void ask(); }} />)}
    {at.key === "measured" && <Drop />}
  </form>;
}

/** FLOPs of a chip at what is set; the time that is compared with what a change makes of it. */
const workNow = (): number => functions.value[index.value].work(now.value)[0];
const timeNow = () => (live.value ? { time: answer.value.lower, work: workNow(), by: applied, name: step.value.name, many: beside.value.length } : null);

/** What the last change did to the time, with a way back; a machine to compare with changes nothing. */
function Difference() {
  const was = before.value;
  if (!was || !live.value || was.name !== step.value.name || was.many !== beside.value.length || Math.abs(answer.value.lower / was.time - 1) < 1e-9) return null;
  const more = was.work > 0 ? workNow() / was.work : 1, times = (was.time / answer.value.lower) * more;
  const work = Math.abs(more - 1) > 0.01 ? ` for ${more.toPrecision(3)} times the work: for the same work` : ":";
  return <p class="diff card" role="status">{was.by || "the change"}: {quantity(was.time, "s")} → {quantity(answer.value.lower, "s")}{work} {times >= 1 ? `${times.toPrecision(3)}× faster` : `${(1 / times).toPrecision(3)}× slower`}{" "}
    <button onClick={() => history.back()}>undo</button></p>;
}

/** What a line of advice changes, by the names of options; figures of a machine stand in a record of their own. */
type Said = Record<string, string | number | Record<string, number>>;

interface Line {
  change: string; reason: string; gain: number; phase?: string; lower_after: number; lower_before: number;
  question?: { expression: string; sizes: Record<string, number>; on: string | null; options: Said } | null; options?: Said | null;
}

/** What would move the bound: each line a question asked afresh, which a click applies. */
function Advice() {
  const [lines, setLines] = useState<Line[] | null>(null);
  const at = route.value, wanted = shown.value, machines = list(state.value.on), which = Math.min(place.value, machines.length - 1), several = machines.length > 1;
  useEffect(() => {
    setLines(null);
    const question = at.ask(several ? { ...state.value, on: machines[which] } : state.value);
    if (!question || wrong.value || (at.key !== "operation" && at.key !== "model")) return;
    const options = { ...question.options };
    delete options.estimate;
    const asking = at.key === "operation" ? askData("advise", { ...question, options }, "advice") : askData("llm", { ...question, options: { ...options, advise: true } }, "advice");
    asking.then((found) => found && setLines(found.advice ?? [])).catch(() => setLines([]));
  }, [wanted, which]);
  if (!lines?.length || !page.value) return null;
  const mine = lines.filter((line) => !line.phase || !live.value || line.phase === step.value.name);
  const apply = (line: Line): (() => void) | null => {
    const { question, options } = line;
    const said = question ? question.options : options;
    if (!said) return null;
    const known = catalog.value?.commands[at.command].options ?? [], fields: State = {}, figures: Record<string, number> = {};
    for (const [name, value] of Object.entries(said)) {
      const option = `--${name.replace(/_/g, "-")}`;
      if (several && typeof value === "object") for (const [figure, amount] of Object.entries(value)) {  // of one machine alone: its slider is moved
        const rate = step.value.rates.find((each) => each.figure && each.figure === figure.replace(/\.bandwidth$/, ""));
        if (!rate) return null;
        figures[keyOf(step.value, rate.name)] = amount;
      } else if (at.fields.some((field) => field.key === name)) fields[name] = String(value);
      else if (!known.some((each) => each.option === option)) return null;
      else for (const word of typeof value === "object" ? Object.entries(value).map((pair) => pair.join("=")) : [String(value)])
        fields.more = withOption(fields.more ?? state.value.more ?? "", option, word);
    }
    if (question) Object.assign(fields, { line: question.expression, on: question.on ?? machines[which],
      sizes: Object.entries(question.sizes).map(([name, value]) => `${name}=${value}`).join(" ") });
    if (fields.on) fields.on = machines.map((each, i) => (i === which ? fields.on : each)).join(",");
    return () => {
      clearTimeout(rest);
      [sliding, applied] = [false, line.change];
      if (Object.keys(figures).length) before.value = timeNow();
      moved.value = figures;
      keepSettings({ ...settings(), ...rates(), ...fields }, { step: true });
      void ask();
    };
  };
  return <section class="card advice" aria-label="What would move it"><h2>What would move it{several && <small> on {step.value.on}</small>}</h2>
    <div class="scroll" tabIndex={0} role="group" aria-label="advice"><table><thead><tr><th class="left">change</th><th>at best</th><th>faster</th><th class="left">why</th><th /></tr></thead>
      <tbody>{mine.slice(0, 14).map((line) => { const take = apply(line); return <tr><td class="left">{line.change}</td><td>{quantity(line.lower_after, "s")}</td>
        <td>{line.gain.toFixed(2)}×</td><td class="left long">{line.reason}</td><td>{take && <button onClick={take}>apply</button>}</td></tr>; })}</tbody></table></div></section>;
}

/** Drop a profile; what loses most time stands first: time × (1 − share of the roof). */
function Drop() {
  const [over, setOver] = useState(false), [name, setName] = useState("");
  const send = async (file: File | undefined) => {
    if (!file) return;
    setName(file.name);
    try {
      const path = await sendFile(file);
      if (path) { change({ file: path, name: file.name }); await ask(); }
    } catch (error) { wrong.value = (error as Error).message; }
  };
  return <div class={`wide drop ${over ? "over" : ""}`} onDragOver={(e) => { e.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)}
    onDrop={(e) => { e.preventDefault(); setOver(false); void send(e.dataTransfer?.files[0]); }}>
    {state.value.file && !state.value.on && <p class="alert" role="status">Which chip did it run on? Write its name above, such as h100.</p>}
    <p>{name || state.value.name || "Drop a torch.profiler trace, a Nsight Compute CSV, or a CSV of name,dtype,flops,bytes,seconds"}</p>
    <input type="file" aria-label="file of measured points" onChange={(e) => void send(e.currentTarget.files?.[0])} /></div>;
}

function Lost() {
  const points: any[] | undefined = page.value?.answer?.points;
  if (!points?.length) return null;
  const rows = points.map((each) => ({ ...each, lost: each.fraction === null ? null : each.seconds * (1 - Math.min(1, each.fraction)) })).sort((a, b) => (b.lost ?? -1) - (a.lost ?? -1));
  const all = rows.reduce((sum, each) => sum + (each.lost ?? 0), 0), first = rows[0];
  const table: Section = { kind: "table", name: "time lost", columns: ["operation", "time", "of the roof", "time lost", "", "binds"].map((name, i) => ({ name, align: i === 0 || i === 5 ? "left" : "right" })),
    rows: rows.map((each) => ({ cells: [{ text: each.name }, { text: quantity(each.seconds, "s"), value: each.seconds }, { text: each.fraction === null ? "no roof" : percent(each.fraction), value: each.fraction ?? undefined },
      { text: each.lost === null ? "" : quantity(each.lost, "s"), value: each.lost ?? undefined }, { text: "", share: all ? (each.lost ?? 0) / all : 0 }, { text: each.bound_by ?? "" }] })) };
  return <section class="card" aria-label="Time lost"><h2>Where the time is lost</h2>
    {first.lost !== null && <p><b>{shortened(first.name, 160)}</b> loses most: {quantity(first.lost, "s")} of its {quantity(first.seconds, "s")}, {percent(first.lost / (all || 1))} of all that is lost. Lost is time × (1 − share of the roof).</p>}
    <Sortable {...table} most={12} /></section>;
}

/** The catalog, and two to six chips side by side: figures, rooflines, a figure of one's own. */
function Chips() {
  const [list, setList] = useState<Page | null>(null), [pair, setPair] = useState<Page | null>(null), [roofs, setRoofs] = useState<Page | null>(null);
  const filter = state.value.filter ?? "", picked = (state.value.pick ?? "").split(",").filter(Boolean), own = state.value.set ?? "", dtype = state.value.dtype ?? "bf16";
  const tell = (error: unknown) => { wrong.value = (error as Error).message; };
  useEffect(() => { askPage("chips", { words: [], options: { dtype } }, "list").then((found) => found && setList(found.page)).catch(tell); }, [dtype]);
  useEffect(() => {
    wrong.value = "";
    if (!picked.length) { setPair(null); setRoofs(null); return; }
    const sets = own ? own.split(/[,\s]+/) : [];
    askPage("chips", { words: picked, options: { set: sets, ...(picked.length === 1 ? { sources: true } : {}) } }, "pair").then((found) => found && setPair(found.page)).catch(tell);
    askPage("plot", { words: [], options: { on: picked, set: sets, dtype } }, "roofs").then((found) => found && setRoofs(found.page)).catch(tell);
  }, [state.value.pick, own, dtype]);
  const toggle = (name: string) => change({ pick: (picked.includes(name) ? picked.filter((each) => each !== name) : [...picked, name].slice(-6)).join(",") });
  const table = list?.sections.find((each) => each.kind === "table") as Extract<Section, { kind: "table" }> | undefined;
  const rows = table?.rows.filter((row) => row.cells.some((cell) => cell.text.toLowerCase().includes(filter.toLowerCase()))) ?? [];
  const waiting = !wrong.value && (list === null || (picked.length > 0 && (pair === null || roofs === null)));
  useEffect(() => { asking.value = waiting; }, [waiting]);
  return <>
    <form class="card ask" onSubmit={(e) => e.preventDefault()} aria-label="Question">
      <label>find<input type="text" value={filter} placeholder="e.g. nvidia" onInput={(e) => change({ filter: e.currentTarget.value }, { step: false })} /></label>
      <label>peak of<Draft value={dtype} size={8} done={(text) => change({ dtype: text.trim() })} /></label>
      <label>figures of your own<Draft value={own} size={24} placeholder="e.g. hbm=4e12" done={(text) => change({ set: text.trim() })} /></label>
      {picked.length > 0 && <span class="tabs">{picked.map((name) => <button type="button" aria-pressed="true" onClick={() => toggle(name)}>{name} ×</button>)}</span>}
    </form>
    {wrong.value && <Wrongly text={wrong.value} />}
    {own && pair && <p class="card flips">yours: {own}; every other figure is the catalog's</p>}
    {roofs?.charts.map((spec) => <Chart key={JSON.stringify(picked) + own + dtype} spec={spec} />)}
    {pair && <section class="card"><h2>{picked.length > 1 ? "Side by side" : pair.title}</h2><Sections sections={[{ kind: "sentences", lines: [], tone: "" }, ...pair.sections]} />
      {picked.length === 1 && <p class="quiet">pick another one to compare</p>}</section>}
    <section class="card chips-table"><h2>{list && rows.length} chips <small>pick up to six</small></h2>
      {table ? <Sortable {...table} rows={rows} most={1000} lead={({ cells: [{ text }] }) => <input type="checkbox" aria-label={`compare ${text}`} checked={picked.includes(text)} onChange={() => toggle(text)} />} /> : <p class="quiet">…</p>}</section>
  </>;
}

/** What is shown where there is nothing yet: that it is being worked out, and for how long. */
function Working() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => { const clock = setInterval(() => setSeconds((now) => now + 1), 1000); return () => clearInterval(clock); }, []);
  return <p class="card quiet" role="status">working it out … {seconds > 0 && `${seconds} s`}</p>;
}

/** What is wrong; the lines below, where a caret points at a letter, are not broken. */
function Wrongly({ text }: { text: string }) {
  const [said, ...lines] = text.split("\n");
  return <div class="card alert wrong" role="alert">{said}{lines.length > 0 && <pre class="scroll" tabIndex={0}>{lines.join("\n")}</pre>}</div>;
}

function Explorer() {
  const at = route.value;
  return <>
    <nav aria-label="Pages"><b>roofline</b>{ROUTES.map((each) => <a href={addressOf(each)} aria-current={each === at ? "page" : undefined}>{each.title}</a>)}</nav>
    <main aria-busy={asking.value}>
      {at.key === "chips" ? <Chips /> : <Ask />}
      {wrong.value && at.key !== "chips" && <Wrongly text={wrong.value} />}
      {busy.value && !page.value && <Working />}
      {at.key !== "chips" && <><Difference />{at.key === "measured" && <Lost />}
        {page.value && (!wrong.value || live.value) && <div class={wrong.value || (busy.value && !(sliding && live.value)) ? "busy" : ""}><AnswerView advice={<Advice />} /></div>}</>}
    </main></>;
}

function arrive(): void {
  const was = route.value;
  read();
  if (route.value !== was) { page.value = null; functions.value = []; before.value = null; shown.value = ""; wrong.value = ""; pinned.value = ""; }
  takeSettings(state.value);
  moved.value = ratesSaid();
  touched.clear();
  sliding = false;
  void ask();
}

addEventListener("popstate", arrive);
render(<Explorer />, document.getElementById("live")!);
const start = document.getElementById("live")!.dataset.start;
if (!location.hash && start) history.replaceState(null, "", start);
arrive();
void catalogOf().then((found) => { catalog.value = found; });

