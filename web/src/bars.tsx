// Rows of bars: parts one after the other or beside each other, against what there is at most; a key, a table, files.
import { useId, useRef, useState } from "preact/hooks";
import { colorOf, nameOf, STYLES, widthOf } from "./marks";
import { quantity } from "./quantity";
import { pinned, type ChartSpec, type Mark } from "./state";
import { Card, Key, width } from "./tools";

const [NAME, BAR, GAP, FIGURE, EDGE] = [20, 16, 10, 92, 4];

/** As much of a text as fits a width. */
const cut = (text: string, room: number): string => (text.length * 6.6 <= room ? text : `${text.slice(0, Math.max(1, Math.floor(room / 6.6) - 1))}…`);

export function Bars({ spec }: { spec: ChartSpec }) {
  const svg = useRef<SVGSVGElement>(null), id = useId();
  const [table, setTable] = useState(false), [hidden, setHidden] = useState<string[]>([]), [told, setTold] = useState("");
  const bars = spec.marks.filter((mark) => mark.mark === "bar"), parts = [...new Set(bars.map((bar) => bar.part ?? ""))];
  const rows = [...new Set(bars.map((bar) => bar.row!))], rowName = (row: number) => spec.y.names?.[row] ?? nameOf(bars.find((bar) => bar.row === row)!);
  const limit = spec.marks.find((mark) => mark.mark === "line" && mark.role === "ceiling"), most = limit ? (limit.x as number[])[0] : 0;
  const shown = bars.filter((bar) => !hidden.includes(bar.part ?? "")), beside = spec.grouped === true;
  const size = (bar: Mark) => bar.x1! - bar.x0!;
  const tooMuch = !beside && bars.some((bar) => most > 0 && bar.x1! > most);
  const longest = Math.max(most, ...bars.map((bar) => bar.x1!)) || 1, WIDTH = width.value, room = WIDTH - EDGE - FIGURE - (tooMuch ? 126 : 0);
  const x = (value: number) => EDGE + (room * value) / longest;
  const high = NAME + (beside ? parts.length * (BAR - 4) : BAR) + GAP, HEIGHT = rows.length * high + (limit ? 20 : 4);
  const say = (bar: Mark) => setTold(`${rowName(bar.row!)} · ${bar.part || bar.label}: ${quantity(size(bar), spec.x.unit)}`);
  return (
    <Card spec={spec} svg={() => svg.current} table={table} setTable={setTable}>
      {table ? <Table spec={spec} rows={rows} parts={parts} bars={bars} rowName={rowName} /> : (
        <svg ref={svg} role="img" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-label={`${spec.title}; a table is behind the button above`} onPointerLeave={() => setTold("")}>
          <defs>{parts.map((part, i) => <pattern id={`stripe${i}${id}`} width="6" height="6" patternUnits="userSpaceOnUse" patternTransform={`rotate(${[45, 0, 90, 135][i % 4]})`}>
            {i % 6 > 0 && <line x1="0" y1="0" x2="0" y2="6" class="stripe" />}</pattern>)}</defs>
          {rows.map((row, k) => {
            const top = k * high, own = shown.filter((bar) => bar.row === row), end = Math.max(0, ...own.map((bar) => (beside ? size(bar) : bar.x1!)));
            const over = limit && !beside && end > most, excess = over ? `, ${quantity(end - most, spec.x.unit)} too much` : "";
            const written = spec.x.unit || shown.length < bars.length ? "" : own[own.length - 1]?.text;  // of an axis without a unit
            const total = own.reduce((sum, bar) => sum + size(bar), 0), said = `${written || quantity(total, spec.x.unit)}${excess}`, begin = x(total) + 6;
            const crossed = limit && x(most) > begin - 3 && x(most) < begin + widthOf(said, true) + 3;  // the line of what there is
            let at = 0;
            return <g class={pinned.value && pinned.value === rowName(row) ? "pinned" : ""} onClick={() => { pinned.value = pinned.value === rowName(row) ? "" : rowName(row); }}>
              <rect class="rowback" x="0" y={top} width={WIDTH} height={high - 2} />
              <text x={EDGE} y={top + 13}>{cut(rowName(row), WIDTH - 2 * EDGE)}<title>{rowName(row)}</title></text>
              {own.map((bar, i) => {
                const from = beside ? 0 : at, long = size(bar);
                at += long;
                const y = top + NAME + (beside ? parts.indexOf(bar.part ?? "") * (BAR - 4) : 0), tall = beside ? BAR - 6 : BAR;
                const box = { x: x(from), y, width: Math.max(long > 0 ? 1 : 0, x(from + long) - x(from)), height: tall };
                return <g class="part" onPointerMove={() => say(bar)}><rect {...box} style={{ fill: colorOf(bar) }} /><rect {...box} style={{ fill: `url(#stripe${parts.indexOf(bar.part ?? "")}${id})` }} />
                  {beside && <text class="small" x={x(from + long) + 5} y={y + tall}>{quantity(long, spec.x.unit)}</text>}<title>{`${bar.part} ${quantity(long, spec.x.unit)}`}</title></g>;
              })}
              {!beside && <text class={over ? "end over" : "end"} x={crossed ? x(most) + 6 : begin} y={top + NAME + 13}>{said}</text>}
            </g>;
          })}
          {limit && <g class="capacity"><line x1={x(most)} x2={x(most)} y1="2" y2={HEIGHT - 16} />
            <text x={Math.min(x(most), WIDTH - 4)} y={HEIGHT - 4} text-anchor={x(most) > WIDTH / 2 ? "end" : "start"}>{limit.text || limit.label}</text></g>}
        </svg>)}
      <p class="read" aria-live="polite">{told || "move over a bar to read it"}</p>
      {parts.length > 1 && <Key label="key" names={parts} hidden={hidden} hide={setHidden} sign={(part, i) => <><rect width="26" height="10" style={{ fill: STYLES[(bars.find((bar) => bar.part === part)?.series ?? i) % 6][0] }} />
        <rect width="26" height="10" style={{ fill: `url(#stripe${i}${id})` }} /></>} />}
    </Card>);
}

function Table({ spec, rows, parts, bars, rowName }: { spec: ChartSpec; rows: number[]; parts: string[]; bars: Mark[]; rowName: (row: number) => string }) {
  const of = (row: number, part: string) => bars.find((bar) => bar.row === row && (bar.part ?? "") === part);
  return <div class="scroll tall" tabIndex={0} role="group" aria-label={spec.title}><table><thead><tr><th class="left">{spec.y.label || "of"}</th>{parts.map((part) => <th>{part || spec.x.label}</th>)}</tr></thead>
    <tbody>{rows.map((row) => <tr class={pinned.value && pinned.value === rowName(row) ? "pinned" : ""} onClick={() => { pinned.value = rowName(row); }}><td class="left">{rowName(row)}</td>
      {parts.map((part) => { const bar = of(row, part); return <td>{bar ? quantity(bar.x1! - bar.x0!, spec.x.unit) : ""}</td>; })}</tr>)}</tbody></table></div>;
}
