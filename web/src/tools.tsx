// What stands beside every chart: its width, its key, ways to save it, the table behind it.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { csv, give, png, svgText } from "./exports";
import { nameOf, shortened, type Spot, spots, written } from "./marks";
import type { ChartSpec, Mark } from "./state";

/** As wide as the window allows, so that text keeps its size on a phone. */
const fitting = () => Math.max(300, Math.min(1120, document.documentElement.clientWidth - 62));
export const width = signal(fitting());
addEventListener("resize", () => { width.value = fitting(); });

/** The key of a chart: names with the sign by which each is drawn; a click hides what it names, or shows it again. */
export function Key({ names, sign, hidden, hide, label }: { names: string[]; sign: (name: string, i: number) => JSX.Element; hidden: string[]; hide: (names: string[]) => void; label?: string }) {
  return <p class="legend" aria-label={label}>{names.map((name, i) => <button class="key" aria-pressed={!hidden.includes(name)} title={`${name}: show or hide`}
    onClick={() => hide(hidden.includes(name) ? hidden.filter((each) => each !== name) : [...hidden, name])}>
    <svg viewBox="0 0 26 10" width="26" height="10" aria-hidden="true">{sign(name, i)}</svg>{shortened(name, 80)}</button>)}</p>;
}

/** Rows that a table shows at once. */
const MOST_ROWS = 400;

export function Exports({ spec, svg }: { spec: ChartSpec; svg: () => SVGSVGElement | null }) {
  const name = spec.title.replace(/[^\w.-]+/g, "-").slice(0, 60) || "chart";
  const kinds: Record<string, () => void> = {
    PNG: () => { const found = svg(); if (found) png(found, `${name}.png`); },
    SVG: () => { const found = svg(); if (found) give(`${name}.svg`, svgText(found), "image/svg+xml"); },
    CSV: () => give(`${name}.csv`, csv(spec), "text/csv"),
    JSON: () => give(`${name}.json`, JSON.stringify(spec, null, 2), "application/json"),
  };
  return <select aria-label="save this chart" value="" onChange={(e) => { kinds[e.currentTarget.value]?.(); e.currentTarget.value = ""; }}>
    <option value="">save …</option>{Object.keys(kinds).map((kind) => <option value={kind}>{kind}</option>)}</select>;
}

/** The card of a chart: its title with what it is saved as, the picture or the table behind it, what is said about it. */
export function Card({ spec, svg, head, tools, table, setTable, about, children }: {
  spec: ChartSpec; svg: () => SVGSVGElement | null; head?: JSX.Element; tools?: ComponentChildren; table: boolean; setTable: (on: boolean) => void; about?: string; children: ComponentChildren;
}) {
  return (
    <section class="card chart" aria-label={spec.title}><div class="row">{head ?? <h2>{spec.title}</h2>}<span class="tools">{tools}
      <button onClick={() => setTable(!table)}>{table ? "picture" : "table"}</button><Exports spec={spec} svg={svg} /></span></div>
      {spec.subtitle && <p class="quiet">{spec.subtitle}</p>}
      {children}
      {(about || spec.notes.length > 0) && <details class="drawer quiet"><summary>about this chart</summary>
        {about && <p>{about}</p>}{spec.notes.length > 0 && <ul>{spec.notes.map((note) => <li>{note}</li>)}</ul>}</details>}
    </section>);
}

/** The table behind a chart: a row a point; a click pins it in the picture, the reverse highlights the row. */
export function Figures({ spec, pinned, pick }: { spec: ChartSpec; pinned: Mark | null; pick: (spot: Spot) => void }) {
  const rows = spots(spec.marks), each = Math.ceil(rows.length / MOST_ROWS);
  const shown = rows.filter((spot, i) => i % each === 0 || spot.mark === pinned);
  return (
    <div class="scroll tall" tabIndex={0} role="group" aria-label={spec.title}><table><thead><tr><th class="left">what</th><th>{spec.x.label}</th><th>{spec.y.label}</th></tr></thead>
      <tbody>{shown.map((spot) => <tr class={spot.mark === pinned ? "pinned" : ""} onClick={() => pick(spot)}>
        <td class="left">{nameOf(spot.mark)}</td><td>{written(spot.x, spec.x)}</td><td>{written(spot.y, spec.y)}</td></tr>)}</tbody></table>
      {each > 1 && <p class="quiet">one row of {each}; CSV has them all</p>}</div>);
}
