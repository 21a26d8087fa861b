// A heat map: a cell for each pair of two sizes, its colour a range of values or what binds; a line where what binds changes.
import { useId, useMemo, useRef, useState } from "preact/hooks";
import { shortened, TOP, widthOf } from "./marks";
import type { ChartSpec, Mark } from "./state";
import { Card, Key, width } from "./tools";

const [BOTTOM, EDGE, LEAST, MOST] = [42, 8, 220, 420];

/** As many names as have room, the first and the last where they have; each with its place. */
const some = (names: string[], step: number, need: (name: string) => number): [number, string][] => {
  const each = Math.max(1, Math.ceil(Math.max(...names.map(need)) / step));
  return names.flatMap((name, i) => (i % each === 0 ? [[i, name] as [number, string]] : []));
};

/** What a cell stands for in the key, in which what does not fit comes last. */
const partOf = (cell: Mark): string => (cell.over ? "does not fit" : cell.part!);
const shadeOf = (cell: Mark): number => (cell.over ? Infinity : cell.shade!);
const colorOf = (cell: Mark): string => (cell.over ? "var(--line)" : `var(--s${cell.shade! % 8})`);

export function HeatMap({ spec }: { spec: ChartSpec }) {
  const svg = useRef<SVGSVGElement>(null), id = useId();
  const [table, setTable] = useState(false), [hidden, setHidden] = useState<string[]>([]);
  const [hover, setHover] = useState<Mark | null>(null), [held, hold] = useState<Mark | null>(null);
  const cells = useMemo(() => spec.marks.filter((mark) => mark.mark === "cell"), [spec]);
  const of = useMemo(() => new Map(cells.map((cell) => [`${cell.column} ${cell.row}`, cell])), [cells]);
  const parts = useMemo(() => [...new Map([...cells].sort((a, b) => shadeOf(a) - shadeOf(b)).map((cell) => [partOf(cell), cell]))], [cells]);
  const beyond = cells.some((cell) => cell.over);
  const columns = spec.x.names, rows = spec.y.names, WIDTH = width.value;
  const left = Math.min(WIDTH / 3, 14 + Math.max(...rows.map((name) => widthOf(name))));
  const high = Math.round(Math.max(LEAST, Math.min(MOST, rows.length * 44))), HEIGHT = TOP + high + BOTTOM;
  const wide = (WIDTH - left - EDGE) / columns.length, tall = high / rows.length;
  const x = (column: number) => left + column * wide, y = (row: number) => TOP + high - row * tall;
  const shown = cells.filter((cell) => !hidden.includes(partOf(cell))), alone = shown.filter((cell) => cell.text).length < shown.length;
  // where each cell has a text they stand on as many lines as fit it, or none does
  const roomOf = (lines: string[]) => Math.max(...lines.map((text) => widthOf(text))) + 6, fit = (by: RegExp) => cells.every((cell) => {
    const lines = (cell.text ?? "").split(by);
    return roomOf(lines) <= wide && lines.length * 15 <= tall;
  });
  const fitting = [/\n/, /[\n ]/].find(fit), linesOf = (cell: Mark) => (cell.text ?? "").split((!alone && fitting) || "\n");
  const told = hover ?? held;
  const at = (event: { clientX: number; clientY: number }): Mark | null => {
    const box = svg.current!.getBoundingClientRect(), px = ((event.clientX - box.left) / box.width) * WIDTH, py = ((event.clientY - box.top) / box.height) * HEIGHT;
    return of.get(`${Math.floor((px - left) / wide)} ${Math.floor((TOP + high - py) / tall)}`) ?? null;
  };
  const key = (event: KeyboardEvent) => {
    const [dx, dy] = ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] } as Record<string, number[]>)[event.key] ?? [0, 0];
    if (dx || dy) {
      event.preventDefault();
      hold(held ? of.get(`${held.column! + dx} ${held.row! + dy}`) ?? held : cells[0]);
    }
    if (event.key === "Escape") hold(null);
  };
  return (
    <Card spec={spec} svg={() => svg.current} table={table} setTable={setTable} about="Click a cell to keep it; with the keyboard the arrows go from cell to cell and Escape lets go.">
      {table ? <Table spec={spec} of={of} /> : (
        <svg ref={svg} role="img" tabindex={0} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-label={`${spec.title}; a table is behind the button above`} onKeyDown={key}
          onPointerMove={(event) => setHover(at(event))} onPointerLeave={() => setHover(null)} onPointerUp={(event) => { const found = at(event); hold(found === held ? null : found); }}>
          {beyond && <pattern id={`over${id}`} width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" class="beyond" /></pattern>}
          {shown.map((cell) => <rect class="cell" x={x(cell.column!)} y={y(cell.row! + 1)} width={wide + 0.3} height={tall + 0.3} style={{ fill: colorOf(cell) }} />)}
          {shown.filter((cell) => cell.over).map((cell) => <rect class="cell" x={x(cell.column!)} y={y(cell.row! + 1)} width={wide} height={tall} style={{ fill: `url(#over${id})` }} />)}
          {spec.marks.filter((mark) => mark.mark === "line").map((mark) => <path class="border" d={`M${(mark.x as number[]).map((column, i) => `${x(column)},${y((mark.y as number[])[i])}`).join("L")}`}><title>{mark.label}</title></path>)}
          {shown.map((cell) => {
            const lines = linesOf(cell), room = roomOf(lines);
            if (!cell.text || (!alone && !fitting) || lines.length * 15 > Math.max(tall, alone ? 15 : 0)) return null;
            const middle = Math.min(Math.max(x(cell.column! + 0.5), left + room / 2), WIDTH - EDGE - room / 2);
            return lines.map((text, i) => <text class="cell" x={middle} y={y(cell.row! + 0.5) + 4 + 15 * (i - (lines.length - 1) / 2)} text-anchor="middle">{text}</text>);
          })}
          {some(columns, wide, (name) => widthOf(name) + 10).map(([i, name]) => <text class="name" x={Math.min(x(i + 0.5), WIDTH - widthOf(name) / 2)} y={TOP + high + 16} text-anchor="middle">{name}</text>)}
          {some(rows, tall, () => 15).map(([i, name]) => <text class="name" x={left - 6} y={y(i + 0.5) + 4} text-anchor="end">{shortened(name, Math.floor(left / 6))}</text>)}
          <text class="axis" x={(left + WIDTH - EDGE) / 2} y={HEIGHT - 6} text-anchor="middle">{spec.x.label}</text>
          <text class="axis" x={2} y={TOP - 4}>{spec.y.label}</text>
          {told && <rect class="told" x={x(told.column!)} y={y(told.row! + 1)} width={wide} height={tall} />}
        </svg>)}
      <p class="read" aria-live="polite">{told?.label ?? "move over a cell to read it"}</p>
      {parts.length > 1 && <Key label="key" names={parts.map(([part]) => part)} hidden={hidden} hide={setHidden} sign={(_, i) => <rect class="swatch" x="0.5" y="0.5" width="25" height="9" style={{ fill: colorOf(parts[i][1]) }} />} />}
    </Card>);
}

function Table({ spec, of }: { spec: ChartSpec; of: Map<string, Mark> }) {
  return <div class="scroll tall" tabIndex={0} role="group" aria-label={spec.title}><table><thead><tr><th class="left">{spec.y.label} \ {spec.x.label}</th>{spec.x.names.map((name) => <th>{name}</th>)}</tr></thead>
    <tbody>{spec.y.names.map((name, row) => <tr><td class="left">{name}</td>{spec.x.names.map((_, column) => { const cell = of.get(`${column} ${row}`); return <td>{cell?.figure ?? ""}</td>; })}</tr>)}</tbody></table></div>;
}
