// Sections of an answer: what a terminal shows, as tables that sort and lists that open.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { isOf, shortened } from "./marks";
import { pinned, type Cell, type Section } from "./state";
import { width } from "./tools";

/** Rows of a table shown before it is opened. */
const MOST_ROWS = 200;

/** Letters of a cell that is given some room, and much, so that its row stays low. */
const [WORDY, LONG] = [10, 40];

/** Letters of a cell that a row shows, of a name without words fewer on a phone; the rest is said where the pointer rests on it. */
const mostLetters = (text: string): number => (width.value < 560 && /\S{40}/.test(text) ? 70 : 240);

/** An option, an arrow, or a figure with its unit. */
const WHOLE = /(--[a-z][\w-]*|->|\d[\d.,]* [kMGTPEmnpµ]?(?:FLOPs?|B|s|Hz|Wh?|J)(?:\/[sB])?\b)/;

/** A path or an address as long as a line. */
const PATH = /(\S{24,})/;

const pieces = (path: string) => (path.match(/[^/]+\/*|\/+/g) ?? []).map((piece, i) => <>{i > 0 && <wbr />}{piece}</>);

/** A sentence whose options, arrows and figures stand on one line each, and whose paths break behind their slashes. */
export const sentence = (text: string) => text.split(WHOLE).map((part, i) =>
  i % 2 ? <span class="whole">{part}</span> : part.split(PATH).map((words, k) => (k % 2 ? pieces(words) : words)));

/** All sections but the answer's own headline; assumptions stand in a drawer at the end. */
export function Sections({ sections }: { sections: Section[] }) {
  return <>{sections.map((each, i) => (i === 0 && each.kind === "headline" ? null : <One section={each} />))}</>;
}

function One({ section }: { section: Section }) {
  switch (section.kind) {
    case "headline":
      return section.level === 1 ? <h2>{section.subject} <small>{section.beside}</small></h2> : <h3>{section.subject} <small>{section.beside}</small></h3>;
    case "sentences":
      return <>{section.lines.map((line) => <p class={`said ${section.tone}`}>{sentence(line)}</p>)}</>;
    case "pairs":
      return <dl class="pairs">{section.pairs.map(([name, text]) => <><dt>{name}</dt><dd>{text}</dd></>)}</dl>;
    case "listing":
      return (
        <details class={`drawer ${section.tone}`} open={section.tone !== "quiet"}>
          <summary>{section.name}{section.tone === "quiet" ? ` (${section.items.length})` : ""}</summary>
          <ul>{section.items.map((item) => <li>{sentence(item)}</li>)}</ul>
        </details>);
    case "table":
      return <Sortable columns={section.columns} rows={section.rows} name={section.name} />;
  }
}

/** The source of a figure that the reader gave. */
const YOURS = "given by the caller";

/** Where the figures of the chosen row are from. */
function Sources({ row, columns, any }: { row?: Rows[0]; columns: { name: string }[]; any: boolean }) {
  if (!any) return null;
  const said = row?.cells.map((cell, i) => cell.source && `${columns[i].name}: ${cell.text}, ${cell.source === YOURS ? "yours" : cell.source}`).filter(Boolean) ?? [];
  return <p class="quiet" aria-live="polite">{said.length ? `${wordsOf(row!)}: ${said.join("; ")}` : "click a row to see the sources of its figures"}</p>;
}

type Rows = Extract<Section, { kind: "table" }>["rows"];

/** The words by which a row is pinned: its first cell that is no figure. */
const wordsOf = (row: Rows[0]): string => row.cells.find((cell) => cell.value === undefined && cell.share === undefined && cell.text && !/^\d+\.$/.test(cell.text))?.text ?? "";
const isPinned = (row: Rows[0]): boolean => pinned.value !== "" && isOf({ mark: "point", label: pinned.value }, wordsOf(row));

/** Columns from which on a narrow page has no room for words beside them. */
const MANY_COLUMNS = 6;

/** A table that sorts by the column that is clicked, figures the largest first; ``lead`` stands before each row.
 *  Words in the last of many columns stand below their row where the page is narrow, so that they are seen. */
export function Sortable({ columns: all, rows, name, most = MOST_ROWS, lead }: { columns: { name: string; align: string }[]; rows: Rows; name: string; most?: number; lead?: (row: Rows[0]) => JSX.Element }) {
  const [by, setBy] = useState<{ column: number; down: boolean } | null>(null);
  const last = all.length - 1, wordy = all.length >= MANY_COLUMNS && all[last].align === "left" && rows.some((row) => (row.cells[last]?.text.length ?? 0) > 2 * WORDY);
  const below = wordy && width.value < 720, columns = below ? all.slice(0, last) : all;
  const key = (cell: Cell | undefined) => (cell?.value !== undefined ? cell.value : cell?.share !== undefined ? cell.share : cell?.text ?? "");
  const tree = rows.some((row) => row.level);
  const shown = by === null ? rows : [...rows].sort((a, b) => {
    const [one, other] = [key(a.cells[by.column]), key(b.cells[by.column])];
    const order = typeof one === "number" && typeof other === "number" ? one - other
      : typeof one === "number" ? 1 : typeof other === "number" ? -1 : String(one).localeCompare(String(other));
    return by.down ? -order : order;
  });
  const [whole, setWhole] = useState(false), some = whole ? shown : shown.filter((row, i) => i < most || isPinned(row));
  const named = columns.some((column) => column.name);
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={name || "table"}><table>
      {named && <thead><tr>{lead && <th />}{columns.map((column, i) =>
        <th scope="col" class={column.align} aria-sort={by?.column === i ? (by.down ? "descending" : "ascending") : undefined}>
          {tree || !column.name ? column.name : <button class="sort" onClick={() => setBy({ column: i, down: by?.column === i ? !by.down : column.align !== "left" })}>
            {column.name}{by?.column === i ? (by.down ? " ▾" : " ▴") : ""}</button>}</th>)}</tr></thead>}
      <tbody>{some.map((row) => <><tr class={`${row.tone ?? ""} ${isPinned(row) ? "pinned" : ""}`} onClick={() => { pinned.value = isPinned(row) ? "" : wordsOf(row); }}>{lead && <td onClick={(e) => e.stopPropagation()}>{lead(row)}</td>}{columns.map((column, i) => {
        const cell = row.cells[i];
        if (!cell) return <td />;
        if (cell.share !== undefined) return <td><meter min={0} max={1} value={cell.share} aria-label={cell.text} /></td>;
        return <td class={`${column.align} ${cell.tone ?? ""} ${cell.text.length > LONG ? "long" : cell.text.length > WORDY ? "wordy" : ""}`} title={cell.text.length > mostLetters(cell.text) ? cell.text : cell.source} style={i === 0 && row.level ? { paddingLeft: `${row.level * 1.2}em` } : undefined}>{shortened(cell.text, mostLetters(cell.text))}{cell.source === YOURS && <small class="flips"> yours</small>}</td>;
      })}</tr>{below && row.cells[last]?.text && <tr class={`below ${row.tone ?? ""}`}><td class="left" colSpan={columns.length}><span>{sentence(row.cells[last].text)}</span></td></tr>}</>)}</tbody></table>
      <Sources row={rows.find(isPinned)} columns={columns} any={rows.some((row) => row.cells.some((cell) => cell.source))} />
      {rows.length > some.length && <p><button onClick={() => setWhole(true)}>show all {rows.length.toLocaleString("en")} rows</button></p>}</div>);
}
