// The log itself: every event by sequence number, newest first.

import { call, stream, useEvents } from "./api.js";
import { Check, Field, Json } from "./lists.js";
import { Command, Empty, ErrorBox, Id, Page, Status, Table, Text, Time, copy, formatNumber, formatTime, html, plain,
	useCallback, useEffect, useMemo, useRef, useState } from "./parts.js";

const PAGE = 500;
const SPAN = 200000;    // sequence numbers that one call examines for a filter that matches little
const KEEP = 200000;    // rows kept while following

const FILTERS = { session: "sessionId", thread: "threadId", turn: "turnId", task: "taskId", process: "processId" };

function matcherOf(query) {
	const globs = (query.type ?? "").split(/[\s,]+/).filter(Boolean).map((g) => new RegExp(`^${g.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".")}$`));
	return (e) => !e.type.startsWith("item.") && (!globs.length || globs.some((g) => g.test(e.type))) && Object.entries(FILTERS).every(([key, member]) => !query[key] || e[member] === query[key]);
}

const paramsOf = (query) => ({
	...((query.type ?? "").trim() ? { types: query.type.split(/[\s,]+/).filter(Boolean) } : {}),
	...Object.fromEntries(Object.entries(FILTERS).filter(([key]) => query[key]).map(([key, member]) => [member, query[key]])),
});

// One line about what happened.
export function summaryOf(e) {
	const p = e.payload ?? {};
	if (p.command && Array.isArray(p.command))
		return html`<${Command} argv=${p.command} />`;
	if (p.exitCode !== undefined)
		return `exit ${p.exitCode}`;
	const text = p.message ?? p.lastError?.message ?? p.preview ?? p.prompt ?? p.decisionReason ?? p.permissionDecision?.decisionReason ?? p.reason ?? p.objective ?? p.text ?? p.path ?? p.host ?? p.toolName ?? p.summary ?? p.title ?? p.phase ?? "";
	return html`<${Text} text=${typeof text === "string" ? text.slice(0, 300) : JSON.stringify(text).slice(0, 300)} />`;
}

const COLUMNS = [
	{ key: "seq", label: "Sequence", width: "70px", align: "right", render: (e) => html`<a class="num" tabindex="-1"
		href=${`#/events?${new URLSearchParams({ ...Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? "")),
		seq: e.sequence })}`}>${e.sequence}</a>` },
	{ key: "time", label: "Time", width: "65px", render: (e) => html`<time class="num" datetime=${e.timestamp}
		title=${plain(e.timestamp)}>${formatTime(e.timestamp, false)}</time>` },
	{ key: "type", label: "Type", width: "175px", render: (e) => html`<code>${plain(e.type)}</code>` },
	{ key: "status", label: "Status", width: "130px", from: 900, render: (e) => (e.status
		? html`<${Status} status=${e.status} />` : "") },
	{ key: "subject", label: "Subject", width: "100px", from: 700, render: (e) => html`<${Id}
		id=${e.actionId ?? e.processId ?? e.jobId ?? e.taskId ?? e.turnId ?? e.sessionId} />` },
	{ key: "what", label: "What", width: "minmax(140px, 2fr)", render: summaryOf },
];

const NARROW = COLUMNS.filter((c) => !["status", "subject"].includes(c.key));     // next to the details of one

function Detail({ event, onClose }) {
	const ids = Object.entries(event).filter(([key, value]) => /Id$/.test(key) && typeof value === "string" && !["eventId", "runtimeId", "requestId"].includes(key));
	return html`<div class="pane detail" aria-live="polite"><header><h2>#${event.sequence} <code>
		${plain(event.type)}</code></h2>
		<button class="quiet small" onClick=${() => copy(JSON.stringify(event, null, 2))}>Copy JSON</button>
		<button class="quiet small" onClick=${onClose}>Close</button></header>
		<p><${Time} at=${event.timestamp} abs /></p><p class="id-list">${ids.map(([key, value]) => html`<span>
			<span class="faint">${plain(key.slice(0, -2))}</span> <${Id} id=${value} /></span> `)}</p>
			<${Json} value=${event.payload ?? {}} label="Payload" />
		<details><summary>Whole event</summary><${Json} value=${event} label="Whole event" /></details></div>`;
}

export default function View({ query, setQuery }) {
	const params = paramsOf(query);
	const until = Number(query.until) || 0;      // show the log up to this event
	const key = JSON.stringify([params, until]);
	const [state, set] = useState({ key: "", rows: [], from: 0, first: 1, error: null, busy: false });
	const [single, setSingle] = useState(null);
	const run = useRef({ key: "", busy: false, buffer: [] });
	const matches = useMemo(() => matcherOf(query), [key]);
	const follow = query.follow !== "0" && !until;

	// Reads further back until a page is full, in steps.
	const older = useCallback(async (fresh) => {
		const now = run.current;
		if ((now.busy && !fresh) || (!fresh && now.from <= now.first))
			return;
		const mine = fresh ? (run.current = { key, busy: true, from: 0, first: 1, buffer: [] }) : now;
		mine.busy = true;
		try {
			if (fresh) {
				const newest = await call("list_events", { order: "desc", limit: 1 });
				Object.assign(mine, { from: until ? until + 1 : newest.lastSequence + 1, first: newest.firstSequence || 1 });
			}
			const found = [];
			while (found.length < PAGE && mine.from > mine.first && run.current === mine) {
				const after = Math.max(mine.first - 1, mine.from - 1 - SPAN);
				const page = await call("list_events", { ...params, order: "desc", afterSequence: after, beforeSequence: mine.from, limit: PAGE - found.length });
				found.push(...page.events);
				mine.from = page.hasMore ? page.events[page.events.length - 1].sequence : after + 1;
				const { from, first } = mine;
				if (run.current === mine && found.length < PAGE)
					set((old) => ({ ...old, key, rows: old.key === key && !fresh ? old.rows : [], from, first, busy: from > first }));
			}
			if (run.current !== mine)
				return;
			const live = fresh ? mine.buffer.filter((e) => !found.length || e.sequence > found[0].sequence).reverse() : [];
			const { from, first } = mine;
			set((old) => ({ key, rows: fresh ? [...live, ...found] : [...old.rows, ...found], from, first, error: null,
				busy: false }));
		} catch (error) {
			if (run.current === mine)
				set((old) => ({ ...old, key, rows: fresh ? [] : old.rows, error, busy: false }));
		}
		mine.busy = false;
	}, [key]);

	useEffect(() => {
		older(true);
		return () => (run.current = { key: "" });
	}, [key]);
	useEffect(() => stream.on((e) => e.type === "reset" && older(true)), [key]);

	// Live events arrive one by one and are shown together.
	const timer = useRef(0);
	useEvents((e) => follow && matches(e), (e) => {
		const now = run.current;
		if (now.key !== key)
			return;
		now.buffer.push(e);
		if (now.busy || timer.current)
			return;
		timer.current = setTimeout(() => {
			timer.current = 0;
			const batch = run.current.buffer.splice(0).reverse();
			set((old) => {
				const top = old.rows[0]?.sequence ?? 0;
				return { ...old, rows: [...batch.filter((x) => x.sequence > top), ...old.rows].slice(0, KEEP) };
			});
		}, 100);
	});
	useEffect(() => () => clearTimeout(timer.current), []);

	const seq = Number(query.seq) || 0;
	const listed = useMemo(() => state.rows.find((e) => e.sequence === seq), [state.rows, seq]);
	useEffect(() => {
		let live = true;
		setSingle(null);
		if (seq && !listed)
			call("list_events", { afterSequence: seq - 1, beforeSequence: seq + 1,
				limit: 1 }).then((page) => live && setSingle(page.events[0] ?? { missing: true }), (error) => live && setSingle({ error }));
		return () => (live = false);
	}, [seq, Boolean(listed)]);
	const shown = listed ?? single;
	const cli = ["events", ...(query.type ? ["--type", query.type] : []), ...(query.process ? ["--process", query.process] : []), ...(query.session ? ["--session", query.session] : []), ...(seq ? ["--since", String(seq - 1)] : []), ...(follow && !seq ? ["-f"] : [])];
	const rows = state.key === key ? state.rows : [];
	return html`<${Page} title="Events" count=${formatNumber(rows.length)} cli=${cli} fill>
		<div class="toolbar"><${Field} label="Type" type="search" value=${query.type ?? ""}
			placeholder="process.* model.*" width="220px" mono onChange=${(type) => setQuery({ type: type.trim() })} />
			${Object.keys(FILTERS).map((name) => (query[name] ? html`<button class="small"
				onClick=${() => setQuery({ [name]: undefined })} aria-label=${`Remove the filter for ${name}`}>
				${name} …${plain(query[name].slice(-6))} ✕</button>` : null))}
			<${Field} label="Up to sequence" value=${query.until ?? ""} width="100px" placeholder="latest"
				onChange=${(text) => setQuery({ until: /^\d+$/.test(text.trim()) ? text.trim() : undefined })} />
			<${Check} label="Follow" value=${follow} onChange=${(on) => setQuery({ follow: on ? undefined : "0",
				until: on ? undefined : query.until })} /><span class="grow"></span>
			<span class="faint num" role="status">
				${state.busy ? `searching, at ${formatNumber(state.from)}` : state.from > state.first ? `loaded back to ${formatNumber(state.from)}; the log begins at ${formatNumber(state.first)}` : `all of the log, from ${formatNumber(state.first)}`}</span></div>
		<${ErrorBox} error=${state.error} retry=${() => older(true)} />
		<div class="panes"><${Table} label="Events" columns=${seq ? NARROW : COLUMNS} rows=${rows}
			rowKey=${(e) => String(e.sequence)} onEnd=${() => older(false)}
			onOpen=${(e) => setQuery({ seq: String(e.sequence) })}
			rowClass=${(e) => (e.sequence === seq ? "current" : "")}
			empty=${state.busy ? "Searching…" : "No event matches."} />
			${seq > 0 && (shown?.error ? html`<div class="pane">
				<${ErrorBox} error=${shown.error} /></div>` : shown?.missing ? html`<div class="pane">
				<${Empty}>There is no event ${seq} that you may see.<//></div>` : shown
				&& html`<${Detail} event=${shown} onClose=${() => setQuery({ seq: undefined })} />`)}</div><//>`;
}
