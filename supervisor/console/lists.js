// Hooks and small parts that the views of lists share.

import { call, useLoad } from "./api.js";
import { Text, html, notify, plain, useCallback, useEffect, useMemo, useRef, useState } from "./parts.js";

export const PAGE_ROWS = 500;
const READS = 20;
const NEW_PAGES = 10;       // read for rows that are new, until one is known

// Replaces the rows that follow the one with the id `after` (null: the first ones) up to the last that the page has in common.
function replaceRows(rows, after, page, idOf) {
	const ids = new Set(page.map(idOf));
	const start = after === null ? 0 : rows.findIndex((row) => idOf(row) === after) + 1;
	if (after !== null && !start)
		return rows;
	let end = start;
	for (let i = start; i < rows.length && i < start + page.length; i++)
		if (ids.has(idOf(rows[i])))
			end = i + 1;
	return [...rows.slice(0, start), ...page, ...rows.slice(end).filter((row) => !ids.has(idOf(row)))];
}

// The rows of a list method that were loaded so far, in its order; more() loads the next page, if there is one. When refreshOn(event) says
// so, the new ones and those in view are loaded again, however many there are; pass onView to the table. member: the list in the
// result; idOf(row): its key; cursorOf(row): the cursor of what follows it.
export function usePages(method, params, member, idOf, { refreshOn, skip, least = 1, cursorName = "cursor",
	nextName = "nextCursor", cursorOf = idOf } = {}) {
	const key = JSON.stringify([method, params]);
	const [state, set] = useState({ key, rows: [], cursor: null });
	const [moreError, setMoreError] = useState(null);
	const busy = useRef(false);
	const view = useRef({ first: null, last: null, changes: 0, read: new WeakMap() });
	const now = state.key === key ? state : { rows: [], cursor: null };
	const latest = useRef();
	latest.current = now;
	const readOne = async (cursor) => {
		const changes = view.current.changes;
		const page = await call(method, { limit: PAGE_ROWS, ...params, ...(cursor ? { [cursorName]: cursor } : {}) });
		const rows = page[member] ?? [];
		rows.forEach((row) => view.current.read.set(row, changes));
		return { rows, cursor: page[nextName] ?? null };
	};
	// A search may return a page with few rows although there are more: it continues until `least` are found, for a bounded number of calls.
	const read = async (cursor) => {
		const page = await readOne(cursor);
		for (let i = 0; page.cursor && page.rows.length < least && i < READS; i++) {
			const further = await readOne(page.cursor);
			page.rows.push(...further.rows);
			page.cursor = further.cursor;
		}
		return page;
	};
	const loaded = useLoad(key, async () => {
		const { rows: old } = latest.current;
		if (!old.length)
			return { key, whole: await read(null) };
		const known = new Set(old.map(idOf));
		const top = await readOne(null);
		for (let i = 1; top.cursor && i < NEW_PAGES && !top.rows.some((row) => known.has(idOf(row))); i++) {
			const further = await readOne(top.cursor);
			top.rows.push(...further.rows);
			top.cursor = further.cursor;
		}
		if (!top.cursor || (top.rows.length >= PAGE_ROWS && !top.rows.some((row) => known.has(idOf(row)))))
			return { key, whole: top };
		const parts = [[null, top.rows]];
		const at = old.findIndex((row) => idOf(row) === view.current.first);
		if (at >= top.rows.length)
			parts.push([idOf(old[at - 1]), (await readOne(cursorOf(old[at - 1]))).rows]);
		return { key, parts };
	}, { refreshOn: (e) => refreshOn?.(e) && (view.current.changes++, true), skip });
	useEffect(() => {
		const { data } = loaded;
		if (data?.key !== key)
			return;
		set((old) => (data.whole ? { key, ...data.whole } : { ...old, rows: data.parts.reduce((rows, [after, page]) => replaceRows(rows, after, page, idOf), old.rows) }));
	}, [loaded.data]);
	// Rows that were read before the latest change are read again when they come into view.
	const onView = useCallback((first, last) => {
		const { changes, read: at } = view.current;
		Object.assign(view.current, { first: first && idOf(first), last: last && idOf(last) });
		if ([first, last].some((row) => row && (at.get(row) ?? changes) < changes))
			loaded.reload();
	}, [loaded.reload]);
	const more = async () => {
		if (busy.current || !now.cursor)
			return;
		busy.current = true;
		try {
			const page = await read(now.cursor);
			set((old) => {
				if (old.key !== key)
					return old;
				const known = new Set(old.rows.map(idOf));
				return { key, rows: [...old.rows, ...page.rows.filter((row) => !known.has(idOf(row)))], cursor: page.cursor };
			});
			setMoreError(null);
		} catch (error) {
			setMoreError(error);
		}
		busy.current = false;
	};
	return { rows: now.rows, error: loaded.error ?? moreError, loading: loaded.loading && !now.rows.length, more, onView,
		hasMore: Boolean(now.cursor), reload: loaded.reload };
}

// An action of a button: fn() with the result announced. Returns [run, busy].
export function useAction() {
	const [busy, set] = useState(false);
	const run = useCallback(async (fn, done) => {
		set(true);
		try {
			const result = await fn();
			if (done)
				notify(typeof done === "function" ? done(result) : done);
			return result;
		} catch (error) {
			notify(`${error.message}${error.hint ? `: ${error.hint}` : ""}`, "bad");
			return undefined;
		} finally {
			set(false);
		}
	}, []);
	return [run, busy];
}

// A text that becomes a parameter when Enter is pressed or the field is left, so that not every letter is a request.
export function Field({ label, value = "", onChange, type = "text", width, placeholder, list, mono }) {
	const [text, set] = useState(value);
	useEffect(() => set(value), [value]);
	const commit = () => text !== value && onChange(text);
	return html`<label>${label}<input type=${type} value=${text} list=${list} placeholder=${placeholder}
		class=${mono ? "mono" : ""} style=${width ? { width } : undefined} spellcheck="false" autocomplete="off"
		onInput=${(e) => set(e.target.value)} onBlur=${commit}
			onKeyDown=${(e) => e.key === "Enter" && commit()} /></label>`;
}

// options: texts, or [value, label].
export const Choice = ({ label, value = "", options, onChange, disabled }) => html`<label>
	${label}<select value=${value} disabled=${disabled} onChange=${(e) => onChange(e.target.value)}>
	${options.map((o) => {
	const [v, text] = Array.isArray(o) ? o : [o, o];
	return html`<option value=${v} selected=${v === value}>${text}</option>`;
})}</select></label>`;

export const Check = ({ label, value, onChange }) => html`<label><input type="checkbox" checked=${Boolean(value)}
	onChange=${(e) => onChange(e.target.checked)} />${label}</label>`;

// A text that does something when clicked, as a link does; rows of tables open with Enter as well.
export const Act = ({ onClick, children, title }) => html`<button class="link" tabindex="-1" title=${title}
	onClick=${onClick}>${children}</button>`;

// JSON as text, with characters that do not show made visible.
export function Json({ value, label }) {
	const text = useMemo(() => JSON.stringify(value, null, 2), [value]);
	return html`<pre class="json" tabindex="0" role="region" aria-label=${label ?? "JSON"}>
		<${Text} text=${text} lines /></pre>`;
}

// The text of an output, as it was recorded, in pieces of 64 KiB.
const PIECE = 65536;
export function Output({ outputRef, preview, label = "Output", bytes, auto, button = "Show the output" }) {
	const [state, set] = useState({ text: preview ?? "", offset: 0, end: false, started: false, busy: false,
		error: "" });
	const load = async () => {
		set((old) => ({ ...old, busy: true }));
		try {
			const part = await call("read_output", { outputRef, offset: state.offset, length: PIECE });
			const text = part.encoding === "base64" ? new TextDecoder().decode(Uint8Array.from(atob(part.data), (c) => c.charCodeAt(0))) : part.data;
			set((old) => ({ text: (old.started ? old.text : "") + text, offset: part.nextOffset,
				end: part.eof || part.nextOffset === old.offset, started: true, busy: false, error: "" }));
		} catch (error) {
			set((old) => ({ ...old, busy: false, error: error.message }));
		}
	};
	useEffect(() => {
		if (auto)
			load();
	}, []);
	const text = state.started ? state.text : preview ?? "";
	const more = outputRef && (state.started ? !state.end : bytes === undefined || bytes > new TextEncoder().encode(text).length);
	return html`<div class="output-box">${text !== "" && html`<pre class="output" tabindex="0" role="region"
		aria-label=${label}><${Text} text=${text} lines /></pre>`}
		${state.started && !auto && text === "" && html`<p class="faint">no output</p>`}${state.error
			&& html`<p class="bad">${plain(state.error)}</p>`}
		${more && html`<button class="quiet small" disabled=${state.busy} onClick=${load}>
			${state.started ? "Load more" : text ? "Load all of it" : button}</button>`}</div>`;
}

// Where a rule is written, as file:line or its session.
export function ruleSource(rule) {
	if (rule.file)
		return `${rule.file}${rule.line ? `:${rule.line}` : ""}`;
	if (rule.sessionId)
		return `session …${rule.sessionId.slice(-6)}`;
	return rule.layer ?? "built in";
}
