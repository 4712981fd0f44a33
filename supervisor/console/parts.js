// What every view is built from. Text is always text: nothing here parses HTML.

import { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";

export { html, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/preact.js";

// ---- hostile text ----

// Characters that do not show as themselves: controls, bidirectional and other format characters, invisible ones, odd spaces,
// private and unassigned ones, lone surrogates. A name or a command could lie with them, so they are shown as escapes.
const UNSEEN = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]/u;
const NAMED = { "\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\e" };

function escapeOf(c) {
	const code = c.codePointAt(0);
	if (NAMED[c])
		return NAMED[c];
	if (code < 0x100)
		return "\\x" + code.toString(16).padStart(2, "0");
	return "\\u" + (code < 0x10000 ? code.toString(16).padStart(4, "0") : `{${code.toString(16)}}`);
}

// Any value of JSON. String() calls toString, which may be a member of an object that was parsed, and no function.
function textOf(value) {
	try {
		return String(value ?? "");
	} catch {
		return JSON.stringify(value);
	}
}

const numberOf = (value) => (typeof value === "number" || typeof value === "string" ? Number(value) : NaN);

// As a string, for titles, labels and document.title.
export const plain = (text) => [...textOf(text)].map((c) => (UNSEEN.test(c) ? escapeOf(c) : c)).join("");

// As nodes, with the escapes marked. With lines: true, line feeds and tabs stay.
export function visible(text, lines = false) {
	const source = textOf(text);
	if (!UNSEEN.test(source))
		return [source];
	const out = [];
	let run = "";
	for (const c of source) {
		if (!UNSEEN.test(c) || (lines && (c === "\n" || c === "\t"))) {
			run += c;
			continue;
		}
		if (run)
			out.push(run);
		run = "";
		out.push(html`<span class="esc" title=${"U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>${escapeOf(c)}</span>`);
	}
	if (run)
		out.push(run);
	return out;
}

export const Text = ({ text, lines }) => html`<bdi dir="ltr">${visible(text, lines)}</bdi>`;

export const shellQuote = (word) => (/^[\w@%+=:,./-]+$/.test(textOf(word)) ? textOf(word) : `'${textOf(word).replaceAll("'", "'\\''")}'`);

// A command as typed in a shell: argv, or text as it is. `lines`: a text of several lines stays so.
export function Command({ argv, text, lines, title }) {
	if (!argv)
		return html`<code class="command" title=${title ?? plain(text)}><bdi dir="ltr">${visible(text, lines)}</bdi></code>`;
	const words = argv.map(shellQuote);
	return html`<code class="command" title=${title ?? plain(words.join(" "))}><bdi dir="ltr"><b>${visible(words[0] ?? "", lines)}</b>${words
		.slice(1)
		.map((w) => [" ", visible(w, lines)])}</bdi></code>`;
}

// A link of hostile origin: http and https only, and its target is its text.
export function Link({ href }) {
	let ok = false;
	try {
		ok = ["http:", "https:"].includes(new URL(href).protocol);
	} catch {
		ok = false;
	}
	return ok ? html`<a href=${href} rel="noopener noreferrer" target="_blank">${visible(href)}</a>` : html`<${Text} text=${href} />`;
}

// ---- time and size ----

const tickers = new Set();
setInterval(() => {
	if (!document.hidden)
		for (const fn of [...tickers])
			fn(Date.now());
}, 1000);

// The time, once a second; for what counts up.
export function useNow(active = true) {
	const [now, set] = useState(Date.now());
	useEffect(() => {
		if (!active)
			return undefined;
		tickers.add(set);
		return () => tickers.delete(set);
	}, [active]);
	return active ? Math.max(now, Date.now() - 1000) : now;
}

export function formatDuration(value) {
	const ms = numberOf(value);
	if (Number.isNaN(ms))
		return "–";
	if (ms < 1000)
		return `${Math.max(0, Math.round(ms))} ms`;
	const s = ms / 1000;
	if (s < 60)
		return `${s.toFixed(s < 10 ? 1 : 0)} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min ${String(Math.floor(s % 60)).padStart(2, "0")} s`;
	if (s < 86400)
		return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
	return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function formatBytes(value) {
	const n = numberOf(value);
	if (Number.isNaN(n))
		return "–";
	if (n < 1000)
		return `${Math.round(n)} B`;
	const units = ["KiB", "MiB", "GiB", "TiB"];
	let v = n / 1024;
	let i = 0;
	while (v >= 1000 && i < 3) {
		v /= 1024;
		i++;
	}
	return `${v.toFixed(v < 10 ? 1 : 0)} ${units[i]}`;
}

export const formatNumber = (n) => (Number.isNaN(numberOf(n)) ? "–" : Number(n).toLocaleString("en-US", { maximumFractionDigits: 2 }));

export const formatUsd = (n) => (Number.isNaN(numberOf(n)) ? "–" : `$${Number(n).toFixed(n < 1 && n > 0 ? 4 : 2)}`);

const millis = (at) => (typeof at === "number" ? at : Date.parse(textOf(at)));

function formatAgo(ms) {
	const s = Math.max(0, ms / 1000);
	if (s < 5)
		return "now";
	if (s < 60)
		return `${Math.floor(s)} s ago`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min ago`;
	if (s < 86400)
		return `${Math.floor(s / 3600)} h ago`;
	return `${Math.floor(s / 86400)} d ago`;
}

const pad = (n) => String(n).padStart(2, "0");

export function formatTime(at, date = true) {
	const t = new Date(millis(at));
	if (Number.isNaN(t.getTime()))
		return "–";
	const clock = `${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}`;
	return date ? `${t.getFullYear()}-${pad(t.getMonth() + 1)}-${pad(t.getDate())} ${clock}` : clock;
}

// at: RFC 3339 or ms. Relative, or absolute with `abs`; the other is in the tooltip.
export function Time({ at, abs }) {
	const ms = millis(at);
	const valid = !Number.isNaN(new Date(ms).getTime()); // also not out of range
	const now = useNow(valid && !abs);
	if (!valid)
		return html`<span class="num faint">–</span>`;
	return html`<time class="num" datetime=${new Date(ms).toISOString()} title=${formatTime(ms)}>${abs ? formatTime(ms) : formatAgo(now - ms)}</time>`;
}

// ms, or since (and until): a duration that counts while there is no `until`.
export function Duration({ ms, since, until }) {
	const live = since !== undefined && since !== null && !until;
	const now = useNow(live);
	const value = ms ?? (since ? (until ? millis(until) : now) - millis(since) : undefined);
	return html`<span class="num">${formatDuration(value)}</span>`;
}

export const Bytes = ({ n }) => html`<span class="num" title=${Number.isNaN(numberOf(n)) ? "" : `${formatNumber(n)} bytes`}>${formatBytes(n)}</span>`;

// ---- ids, states, commands to copy ----

const VIEW_OF = {
	proc: "processes", sess: "sessions", thr: "threads", turn: "turns", task: "tasks", job: "jobs", act: "approvals", sbx: "changes",
};

// Where an id is shown, or "" if there is no view for it. An event is shown by its sequence number.
export function hrefOf(id) {
	const view = VIEW_OF[textOf(id).split("_")[0]];
	return typeof view === "string" ? `#/${view}/${encodeURIComponent(id)}` : "";
}

export const shortId = (id) => {
	const [kind, rest] = textOf(id).split(/_(.*)/s);
	return rest && rest.length > 8 ? `${kind}…${rest.slice(-6)}` : textOf(id);
};

export function Id({ id, full }) {
	if (!id)
		return html`<span class="faint">–</span>`;
	const href = hrefOf(id);
	const text = plain(full ? id : shortId(id));
	return href ? html`<a class="id" href=${href} title=${plain(id)}>${text}</a>` : html`<span class="id" title=${plain(id)}>${text}</span>`;
}

const TONE = {
	running: "live", starting: "live", accepted: "live", working: "live", connected: "live", active: "live", ending: "live",
	completed: "good", ok: "good", allow: "good", allowed: "good", approved: "good", enforced: "good", resolved: "good", applied: "good",
	failed: "bad", deny: "bad", denied: "bad", lost: "bad", timed_out: "bad", unavailable: "bad", disconnected: "bad", error: "bad",
	terminated: "off", cancelled: "off", closed: "off", archived: "off", expired: "off", discarded: "off", interrupted: "off", idle: "off",
	waiting_permission: "wait", waiting_input: "wait", waiting_resource: "wait", pending: "wait", ask: "wait", queued: "wait", blocked: "wait",
	paused: "wait", degraded: "wait", retrying: "wait", cancelling: "wait", connecting: "wait", draft: "wait",
};
const SHAPE = { live: "▶", good: "✓", bad: "✕", off: "■", wait: "◆", none: "·" };

// A state by shape, colour and word. `label` replaces the word.
export function Status({ status, label }) {
	const tone = Object.hasOwn(TONE, textOf(status)) ? TONE[status] : "none";
	return html`<span class=${`status ${tone}`}><span aria-hidden="true">${SHAPE[tone]}</span> ${plain(label ?? textOf(status ?? "–").replaceAll("_", " "))}</span>`;
}

export async function copy(text) {
	try {
		await navigator.clipboard.writeText(text);
		notify("Copied");
	} catch {
		notify("The browser does not allow access to the clipboard", "bad");
	}
}

// The command that does or shows the same: argv without "bailiff".
export function Cli({ argv }) {
	const line = ["bailiff", ...argv].map((w) => shellQuote(w)).join(" ");
	return html`<div class="cli"><span aria-hidden="true" class="faint">$</span><code>${visible(line)}</code>
		<button class="quiet small" onClick=${() => copy(line)} aria-label=${`Copy: ${plain(line)}`}>Copy</button></div>`;
}

// ---- boxes ----

// A view: heading, the equivalent command, buttons on the right, and content.
export const Page = ({ title, count, cli, actions, children, fill }) => html`<section class=${fill ? "page fill" : "page"}>
	<header class="page-head"><h1 tabindex="-1">${title}${count !== undefined && html` <span class="count num">${count}</span>`}</h1>
		<div class="actions">${actions}</div>${cli && html`<${Cli} argv=${cli} />`}</header>${children}</section>`;

export const Card = ({ title, actions, children, wide }) => html`<section class=${wide ? "card wide" : "card"}>
	<header><h2>${title}</h2><div class="actions">${actions}</div></header>${children}</section>`;

// rows: [[name, content], …]; rows without content are left out.
export const Facts = ({ rows }) => html`<dl class="facts">${rows
	.filter((row) => row && ![undefined, null, "", false].includes(row[1]))
	.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

export const Loading = () => html`<p class="empty" role="status">Loading…</p>`;

export const ErrorBox = ({ error, retry }) => error && html`<div class="error" role="alert"><strong>${plain(error.message || error)}</strong>
	${error.hint && html`<p>${plain(error.hint)}</p>`}${error.code && html`<span class="faint">${plain(error.code)}</span>`}
	${retry && html`<button class="small" onClick=${retry}>Try again</button>`}</div>`;

// value of max, as a bar with its text.
export function Meter({ value = 0, max = 1, label, text }) {
	const part = max > 0 ? Math.min(1, Math.max(0, value / max)) : 0;
	const tone = part > 0.9 ? "bad" : part > 0.75 ? "wait" : "good";
	return html`<div class=${`meter ${tone}`} role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax=${max} aria-valuenow=${value} aria-valuetext=${text}>
		<span class="bar"><span style=${{ width: `${part * 100}%` }}></span></span>${text && html`<span class="num">${text}</span>`}</div>`;
}

// tabs: [[key, label, count], …]
export const Tabs = ({ tabs, value, onChange, label }) => html`<div class="tabs" role="tablist" aria-label=${label}
	onKeyDown=${(e) => {
		const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
		if (!step)
			return;
		const at = tabs.findIndex(([key]) => key === value);
		onChange(tabs[(at + step + tabs.length) % tabs.length][0]);
		e.currentTarget.children[(at + step + tabs.length) % tabs.length].focus();
	}}>${tabs.map(([key, text, count]) => html`<button role="tab" id=${`tab-${key}`} aria-selected=${String(key === value)} tabindex=${key === value ? 0 : -1}
	onClick=${() => onChange(key)}>${text}${count !== undefined && html` <span class="count num">${count}</span>`}</button>`)}</div>`;

// A modal dialog. Focus is kept inside and returns to where it was; Escape closes it. Enter that is held down since before it was
// opened presses no button.
export function Dialog({ title, onClose, children, alert }) {
	const ref = useRef();
	useLayoutEffect(() => {
		const before = document.activeElement;
		ref.current.showModal();
		return () => before?.isConnected && before.focus();
	}, []);
	return html`<dialog ref=${ref} role=${alert ? "alertdialog" : "dialog"} aria-labelledby="dialog-title" onCancel=${(e) => {
		e.preventDefault();
		onClose();
	}} onKeyDown=${(e) => e.repeat && e.key === "Enter" && e.target.closest("button") && e.preventDefault()}
		onClick=${(e) => e.target === ref.current && onClose()}><div class="dialog-body"><h2 id="dialog-title">${title}</h2>${children}</div></dialog>`;
}

// A button that asks once more: confirm is the question.
export function Confirm({ label, question, confirm, onConfirm, disabled, kind = "danger", detail }) {
	const [open, set] = useState(false);
	const [busy, setBusy] = useState(false);
	const [error, setError] = useState(null);
	const act = async () => {
		setBusy(true);
		setError(null);
		try {
			await onConfirm();
			set(false);
		} catch (e) {
			setError(e);
		}
		setBusy(false);
	};
	return html`<button class=${kind} disabled=${disabled} onClick=${() => set(true)}>${label}</button>${open &&
	html`<${Dialog} title=${question} alert onClose=${() => set(false)}>${detail}<${ErrorBox} error=${error} />
		<div class="dialog-actions"><button onClick=${() => set(false)}>Cancel</button>
		<button class=${kind} disabled=${busy} onClick=${act} autofocus>${confirm ?? label}</button></div><//>`}`;
}

const notices = { list: [], listeners: new Set(), next: 1 };

// A short message about an action; screen readers hear it.
export function notify(text, tone = "good") {
	const notice = { id: notices.next++, text, tone };
	notices.list = [...notices.list.slice(-3), notice];
	const tell = () => notices.listeners.forEach((fn) => fn(notices.list));
	tell();
	setTimeout(() => {
		notices.list = notices.list.filter((other) => other !== notice);
		tell();
	}, tone === "bad" ? 8000 : 4000);
}

export function Notices() {
	const [list, set] = useState(notices.list);
	useEffect(() => {
		notices.listeners.add(set);
		return () => notices.listeners.delete(set);
	}, []);
	return html`<div class="notices" role="status" aria-live="polite">${list.map((n) => html`<div key=${n.id} class=${`notice ${n.tone}`}>${plain(n.text)}</div>`)}</div>`;
}

// ---- diffs ----

const diffClass = (line) =>
	line.startsWith("+++") || line.startsWith("---") ? "file" : line.startsWith("@@") ? "hunk" : line.startsWith("+") ? "add" : line.startsWith("-") ? "del" : "";

// A unified diff. Longer ones are cut after `limit` lines, with a button for the rest.
export function Diff({ text, limit = 2000, label = "Diff" }) {
	const [all, setAll] = useState(false);
	const lines = useMemo(() => textOf(text).replace(/\n$/, "").split("\n"), [text]);
	const shown = all ? lines : lines.slice(0, limit);
	return html`<div class="diff" role="region" aria-label=${plain(label)} tabindex="0"><pre>${shown.map((line) => html`<span class=${diffClass(line)}>${visible(line, true)}${"\n"}</span>`)}</pre>
		${shown.length < lines.length && html`<button onClick=${() => setAll(true)}>Show ${formatNumber(lines.length - shown.length)} more lines</button>`}</div>`;
}

// ---- plots ----

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const BYTE_STEPS = Array.from({ length: 44 }, (_, i) => 2 ** i);

// series: [times in s, values, values …]; names: one for each of the values; format: of a value; bytes: ticks are powers of two.
export function Plot({ series, names, label, format = formatNumber, height = 110, bytes }) {
	const box = useRef();
	const plot = useRef();
	const [dark, setDark] = useState(matchMedia("(prefers-color-scheme: dark)").matches);
	useEffect(() => {
		const media = matchMedia("(prefers-color-scheme: dark)");
		const change = () => setDark(media.matches);
		media.addEventListener("change", change);
		return () => media.removeEventListener("change", change);
	}, []);
	useLayoutEffect(() => {
		const axis = { stroke: colourOf("--faint"), grid: { stroke: colourOf("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
		const width = () => Math.max(80, box.current.clientWidth);
		const options = {
			width: width(), height, legend: { show: false }, cursor: { drag: { x: true, y: false }, points: { size: 5 } }, padding: [8, 28, 0, 0],
			scales: { y: { range: (_, min, max) => [Math.min(0, min ?? 0), max > 0 ? max * 1.1 : 1] } },
			axes: [{ ...axis, size: 22, space: 60, values: (_, ticks) => ticks.map((t) => formatTime(t * 1000, false).slice(0, ticks.at(-1) - ticks[0] < 300 ? 8 : 5)) },
				{ ...axis, size: 58, space: 34, incrs: bytes ? BYTE_STEPS : undefined, values: (_, ticks) => ticks.map((v) => format(v)) }],
			series: [{}, ...names.map((name, i) => ({ label: name, stroke: colourOf(`--plot-${i + 1}`), width: 1.5, fill: i ? undefined : colourOf("--plot-fill"), points: { show: false } }))],
		};
		plot.current = new window.uPlot(options, series, box.current);
		const observer = new ResizeObserver(() => plot.current?.setSize({ width: width(), height }));
		observer.observe(box.current);
		return () => {
			observer.disconnect();
			plot.current.destroy();
			plot.current = null;
		};
	}, [dark, names.join("\n"), height]);
	useEffect(() => plot.current?.setData(series), [series]);
	const last = names.map((_, i) => series[i + 1]?.[series[i + 1].length - 1]);
	return html`<figure class="plot"><figcaption><span>${label ?? names.join(", ")}</span><span class="values">${names.map(
		(name, i) => html`<span>${names.length > 1 && html`<i class=${`key k${i + 1}`}></i>${name} `}<b class="num">${format(last[i])}</b></span>`,
	)}</span></figcaption><div ref=${box} class="plot-box" style=${{ height: `${height}px` }} role="img" aria-label=${`${label ?? names.join(", ")}: ${names
		.map((name, i) => `${name} ${format(last[i])}`)
		.join(", ")}`}></div></figure>`;
}

// ---- the table ----

const ROW_PX = 28;
const SPARE_ROWS = 10;

const toggle = (set, key) => {
	const next = new Set(set);
	if (!next.delete(key))
		next.add(key);
	return next;
};

// A list of any length: only the rows in view are in the document. columns: [{key, label, width (of a grid track), align, render(row),
// sortable, desc (sorts descending first), from (px: hidden in a narrower table)}]. rowKey(row) → string. Optional: selected (a Set of keys) with onSelect(Set), onOpen(row), sort {key, desc} with
// onSort({key, desc}), onEnd() when the end comes into view, onView(row, row) with the first and the last row in view, label, empty,
// rowClass(row).
// Keys: j k ↑ ↓ Home End PgUp PgDn move, x or space selects, Enter opens.
export function Table({ columns: given, rows, rowKey, selected, onSelect, onOpen, sort, onSort, onEnd, onView, label, empty, rowClass }) {
	const box = useRef();
	const [view, setView] = useState({ top: 0, height: 600, width: 1100 });
	const columns = given.filter((c) => !c.from || view.width >= c.from);
	const [active, setActive] = useState({ index: 0, key: null });
	const anchor = useRef({ key: null, index: 0, rows: null });

	// Where the active row is now: rows may have been added before it.
	const at = useMemo(() => {
		if (active.key === null || (rows[active.index] && rowKey(rows[active.index]) === active.key))
			return Math.min(active.index, Math.max(0, rows.length - 1));
		const found = rows.findIndex((row) => rowKey(row) === active.key);
		return found < 0 ? Math.min(active.index, Math.max(0, rows.length - 1)) : found;
	}, [rows, active]);

	const measure = useCallback(() => {
		const { scrollTop: top, clientHeight: height, clientWidth: width } = box.current;
		setView((old) => (old.top === top && old.height === height && old.width === width ? old : { top, height, width }));
	}, []);
	useLayoutEffect(() => {
		measure();
		const observer = new ResizeObserver(measure);
		observer.observe(box.current);
		return () => observer.disconnect();
	}, []);

	// What the reader looks at stays where it is when rows are added above.
	useLayoutEffect(() => {
		const { key, index, rows: before } = anchor.current;
		if (before && before !== rows && key !== null && box.current.scrollTop > 0) {
			const now = rows[index] && rowKey(rows[index]) === key ? index : rows.findIndex((row) => rowKey(row) === key);
			if (now >= 0 && now !== index)
				box.current.scrollTop += (now - index) * ROW_PX;
		}
		const first = Math.floor(box.current.scrollTop / ROW_PX);
		anchor.current = { key: rows[first] ? rowKey(rows[first]) : null, index: first, rows };
	}, [rows, view.top]);

	const first = Math.max(0, Math.floor(view.top / ROW_PX) - SPARE_ROWS);
	const last = Math.min(rows.length, Math.ceil((view.top + view.height) / ROW_PX) + SPARE_ROWS);
	useEffect(() => {
		if (onEnd && last >= rows.length)
			onEnd();
	}, [last, rows.length]);
	useEffect(() => onView?.(rows[first], rows[last - 1]), [first, last, rows]);

	const move = (index) => {
		const to = Math.max(0, Math.min(rows.length - 1, index));
		if (!rows[to])
			return;
		setActive({ index: to, key: rowKey(rows[to]) });
		const top = to * ROW_PX;
		const inside = box.current.clientHeight - ROW_PX; // without the heading
		if (top < box.current.scrollTop)
			box.current.scrollTop = top;
		else if (top + ROW_PX > box.current.scrollTop + inside)
			box.current.scrollTop = top + ROW_PX - inside;
	};
	const page = () => Math.max(1, Math.floor(view.height / ROW_PX) - 2);
	const keys = (e) => {
		if (e.target !== box.current || e.ctrlKey || e.metaKey || e.altKey)
			return;
		const row = rows[at];
		const to = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, End: rows.length - 1, PageDown: at + page(), PageUp: at - page() }[e.key];
		if (to !== undefined)
			move(to);
		else if ((e.key === "x" || e.key === " ") && onSelect && row)
			onSelect(toggle(selected, rowKey(row)));
		else if (e.key === "Enter" && onOpen && row)
			onOpen(row);
		else
			return;
		e.preventDefault();
		e.stopPropagation();
	};
	const id = useMemo(() => `t${Math.random().toString(36).slice(2, 8)}`, []);
	const tracks = { gridTemplateColumns: `${onSelect ? "28px " : ""}${columns.map((c) => c.width ?? "1fr").join(" ")}` };
	const heading = (c) => {
		const on = sort?.key === c.key;
		const mark = on ? (sort.desc ? " ▾" : " ▴") : "";
		return html`<div role="columnheader" class=${c.align ?? ""} aria-sort=${on ? (sort.desc ? "descending" : "ascending") : undefined}>${c.sortable && onSort
			? html`<button class="sort" onClick=${() => onSort({ key: c.key, desc: on ? !sort.desc : Boolean(c.desc) })}>${c.label}<span aria-hidden="true">${mark}</span></button>`
			: c.label}</div>`;
	};
	const all = rows.length > 0 && selected?.size >= rows.length;
	return html`<div class="table" role="grid" aria-label=${label} aria-rowcount=${rows.length + 1} aria-multiselectable=${onSelect ? "true" : undefined} tabindex="0"
		ref=${box} onScroll=${measure} onKeyDown=${keys} aria-activedescendant=${rows[at] && at >= first && at < last ? `${id}-${at}` : undefined}>
		<div role="row" aria-rowindex="1" class="tr th" style=${tracks}>${onSelect && html`<div role="columnheader"><input type="checkbox" aria-label="Select all" checked=${all}
			onChange=${() => onSelect(all ? new Set() : new Set(rows.map(rowKey)))} /></div>`}${columns.map(heading)}</div>
		<div role="rowgroup" class="tbody" style=${{ height: `${rows.length * ROW_PX}px` }}>${rows.slice(first, last).map((row, i) => {
			const key = rowKey(row);
			const index = first + i;
			const picked = selected?.has(key);
			return html`<div key=${key} id=${`${id}-${index}`} role="row" aria-rowindex=${index + 2} aria-selected=${onSelect ? String(Boolean(picked)) : undefined}
				class=${`tr${index === at ? " active" : ""}${picked ? " picked" : ""} ${rowClass?.(row) ?? ""}`} style=${{ ...tracks, transform: `translateY(${index * ROW_PX}px)` }}
				onMouseDown=${() => setActive({ index, key })} onDblClick=${() => onOpen?.(row)}>
				${onSelect && html`<div role="gridcell"><input type="checkbox" tabindex="-1" aria-label=${`Select ${key}`} checked=${picked} onChange=${() => onSelect(toggle(selected, key))} /></div>`}
				${columns.map((c) => html`<div role="gridcell" class=${c.align ?? ""}>${c.render(row)}</div>`)}</div>`;
		})}</div>${rows.length === 0 && html`<${Empty}>${empty ?? "Nothing here."}<//>`}</div>`;
}
