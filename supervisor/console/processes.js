// All processes: a tree by session and sandbox, or a flat list that can be sorted. Live ones come with their use of CPU and memory
// every two seconds; ended ones are loaded as the reader scrolls.

import { call, can, stream, useCall, useEvents } from "./api.js";
import { Command, Confirm, Duration, ErrorBox, Id, Page, Status, Table, Time, formatBytes, formatNumber, html, notify, plain, shellQuote, useCallback, useEffect, useMemo, useRef, useState } from "./parts.js";

const POLL_MS = 2000;
const SOON_MS = 250;             // events that arrive together cause one reading
const PAGE_ROWS = 1000;
const PAGES_AHEAD = 10;
const NEW_ROWS = 100;           // read at once when processes have started or ended
const SAMPLE_US = 500000;       // between two readings of the CPU time that are compared
const KEPT = ["processId", "status", "command", "commandLine", "cwd", "tty", "startedAt", "endedAt", "exitCode", "signal", "durationMs", "sessionId", "sandboxId", "uid", "user",
	"violationCount", "usage", "statusReason", "message", "limit", "category"];
const LIVE = ["running", "waiting_permission"];

// Only what the list shows: 100,000 whole documents would be 150 MB.
const slim = (process) => Object.fromEntries(KEPT.filter((k) => process[k] !== undefined).map((k) => [k, process[k]]));

// Ids sort by time. Both lists have the newest first; of a process in both, the first list's.
function mergeNewest(a, b) {
	const out = [];
	let i = 0;
	let j = 0;
	while (i < a.length || j < b.length) {
		if (j >= b.length || (i < a.length && a[i].processId >= b[j].processId)) {
			if (j < b.length && a[i].processId === b[j].processId)
				j++;
			out.push(a[i++]);
		} else {
			out.push(b[j++]);
		}
	}
	return out;
}

const newestFirst = (rows) => [...rows].sort((a, b) => (a.processId < b.processId ? 1 : -1));

export const textOf = (p) => p.commandLine ?? (p.command ?? []).map(shellQuote).join(" ");
const isLive = (p) => LIVE.includes(p.status);

// The end in a few words: exit 1, signal KILL, time limit.
export function Outcome({ process: p }) {
	if (p.status === "completed" && p.exitCode)
		return html`<${Status} status="failed" label=${`exit ${p.exitCode}`} />`;
	if (p.status === "completed" && p.signal)
		return html`<${Status} status="failed" label=${`signal ${p.signal}`} />`;
	if (p.status === "failed" && p.category === "permission")
		return html`<${Status} status="denied" />`;
	return html`<${Status} status=${p.status} label=${p.limit ? `${p.limit} limit` : undefined} />`;
}

const readOne = (processId) => call("list_processes", { match: processId, helpers: false, usage: true, limit: 1 }).then((page) => page.processes.map(slim), () => []);

async function loadPages(params) {
	const found = [];
	let cursor;
	do {
		const page = await call("list_processes", { ...params, helpers: false, limit: PAGE_ROWS, cursor });
		found.push(...page.processes.map(slim));
		cursor = page.nextCursor;
	} while (cursor);
	return found;
}

// What runs, and what waits for an approval to do so. The daemon has lists of running processes and of open questions, so that the cost does
// not depend on how many processes there are.
async function loadLive(scope) {
	const [running, { actions }] = await Promise.all([loadPages({ ...scope, liveOnly: true, usage: true }), call("list_actions", { ...scope, status: "pending", limit: 1000 })]);
	const known = new Set(running.map((p) => p.processId));
	const asking = [...new Set(actions.map((a) => a.processId).filter((id) => id && !known.has(id)))];
	const waiting = (await Promise.all(asking.map(readOne))).flat().filter((p) => p.status === "waiting_permission");
	return newestFirst([...running, ...waiting]);
}

// CPU in percent of one processor, from two samples.
function useLive(scope) {
	const [state, set] = useState({ rows: [], error: null, loaded: false });
	const before = useRef(new Map());
	const busy = useRef(false);
	const load = useCallback(async () => {
		if (busy.current)
			return;
		busy.current = true;
		try {
			const rows = await loadLive(scope);
			const samples = new Map();
			for (const row of rows) {
				if (row.usage?.cpuUs === undefined)
					continue;
				const last = before.current.get(row.processId);
				const passed = last ? row.usage.timeUs - last.timeUs : 0;
				row.cpu = passed >= SAMPLE_US ? Math.max(0, ((row.usage.cpuUs - last.cpuUs) / passed) * 100) : last?.cpu;
				samples.set(row.processId, last && passed < SAMPLE_US ? last : { timeUs: row.usage.timeUs, cpuUs: row.usage.cpuUs, cpu: row.cpu });
			}
			before.current = samples;
			set({ rows, error: null, loaded: true });
		} catch (error) {
			set((old) => ({ ...old, error }));
		}
		busy.current = false;
	}, []);
	useEffect(() => {
		load();
		const timer = setInterval(() => document.hidden || stream.state.daemon !== "connected" || load(), POLL_MS);
		return () => clearInterval(timer);
	}, []);
	return { ...state, load };
}

// Ended processes, newest first, page by page.
function useEnded(active, scope) {
	const [state, set] = useState({ rows: [], cursor: undefined, done: false });
	const busy = useRef(false);
	const merge = (rows, page) => mergeNewest(newestFirst(page.filter((p) => !isLive(p)).map(slim)), rows);
	const read = (cursor, limit = PAGE_ROWS) => call("list_processes", { ...scope, helpers: false, usage: true, limit, cursor });
	const more = useCallback(async () => {
		if (busy.current || state.done)
			return;
		busy.current = true;
		try {
			let rows = [];
			let cursor = state.cursor;
			// The further the reader has come, the more at a time.
			for (let i = Math.min(PAGES_AHEAD, 1 + state.rows.length / PAGE_ROWS); i >= 1; i--) {
				const page = await read(cursor);
				rows = merge(rows, page.processes);
				cursor = page.nextCursor;
				if (!cursor)
					break;
			}
			set((old) => ({ rows: mergeNewest(old.rows, rows), cursor, done: !cursor }));
		} catch (e) {
			notify(e.message, "bad");
		}
		busy.current = false;
	}, [state]);
	const latest = useRef();
	latest.current = state;
	// What is new, and what has ended of what is not: `ids`.
	const refresh = useCallback(async (ids) => {
		const newest = latest.current.rows[0]?.processId ?? "";
		const { cursor: end, done } = latest.current;
		let rows = [];
		let cursor;
		do {
			const page = await read(cursor, NEW_ROWS);
			rows = merge(rows, page.processes);
			page.processes.forEach((p) => ids.delete(p.processId));
			cursor = page.nextCursor;
		} while (cursor && cursor > newest);
		// Those beyond what was loaded come with their page.
		const old = [...ids].filter((id) => done || !end || id > end);
		rows = merge(rows, (await Promise.all(old.map(readOne))).flat());
		set((now) => ({ ...now, rows: mergeNewest(rows, now.rows) }));
	}, []);
	useEffect(() => {
		if (active && !state.rows.length && !state.done)
			more();
	}, [active]);
	return { ...state, more, refresh };
}

const SORT = {
	status: (p) => p.status, command: textOf, user: (p) => p.user ?? p.uid, cpu: (p) => p.cpu ?? -1, memory: (p) => p.usage?.memoryBytes ?? p.usage?.maxRssBytes ?? -1, tasks: (p) => p.usage?.tasks ?? -1,
	io: (p) => (p.usage?.readBytes ?? 0) + (p.usage?.writeBytes ?? 0), started: (p) => p.startedAt ?? p.processId, duration: (p) => p.durationMs ?? Date.now() - Date.parse(p.startedAt ?? 0),
};

function sorted(rows, { key, desc }) {
	if (key === "started" && desc)
		return rows;
	const of = SORT[key] ?? SORT.started;
	return rows
		.map((row) => [of(row), row])
		.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (desc ? -1 : 1))
		.map(([, row]) => row);
}

const sum = (rows, of) => rows.reduce((total, row) => total + (of(row) ?? 0), 0);

// Sessions in the order of their newest process; in each, its own processes and then its sandboxes. A session without a title that
// was created for one command needs no heading.
function tree(rows, titles, closed) {
	const sessions = new Map();
	for (const row of rows) {
		const key = row.sessionId ?? "none";
		if (!sessions.has(key))
			sessions.set(key, []);
		sessions.get(key).push(row);
	}
	const out = [];
	const group = (id, label, members, depth) => {
		const shut = closed.has(id);
		out.push({ group: id, label, depth, shut, count: members.length, cpu: members.some(isLive) ? sum(members, (m) => m.cpu) : undefined, memory: sum(members.filter(isLive), (m) => m.usage?.memoryBytes) });
		return shut;
	};
	for (const [session, members] of sessions) {
		if (members.length === 1 && !titles.get(session) && !members[0].sandboxId) {
			out.push({ ...members[0], depth: 0 });
			continue;
		}
		if (group(session, titles.get(session) || "Session", members, 0))
			continue;
		out.push(...members.filter((m) => !m.sandboxId).map((m) => ({ ...m, depth: 1 })));
		for (const sandbox of new Set(members.map((m) => m.sandboxId).filter(Boolean))) {
			const inside = members.filter((m) => m.sandboxId === sandbox);
			if (!group(sandbox, titles.get(sandbox) || "Sandbox", inside, 1))
				out.push(...inside.map((m) => ({ ...m, depth: 2 })));
		}
	}
	return out;
}

const matches = (row, words, titles) => {
	const text = `${textOf(row)} ${row.processId} ${row.cwd ?? ""} ${row.user ?? row.uid ?? ""} ${row.sessionId ?? ""} ${row.sandboxId ?? ""} ${titles.get(row.sessionId) ?? ""} ${titles.get(row.sandboxId) ?? ""} ${row.status}`.toLowerCase();
	return words.every((w) => text.includes(w));
};

const percent = (v) => (v === undefined ? "" : v < 9.95 ? `${v.toFixed(1)} %` : `${Math.round(v)} %`);

function columns({ toggleGroup, flat }) {
	const cell = (of) => (row) => (row.group ? "" : of(row));
	return [
		{ key: "command", label: "Command", width: "minmax(180px, 1fr)", sortable: true, render: (row) => row.group
			? html`<span class=${`indent d${row.depth}`}><button class="fold" aria-expanded=${String(!row.shut)} aria-label=${`${row.shut ? "Show" : "Hide"} ${plain(row.label)}`} tabindex="-1"
				onClick=${() => toggleGroup(row.group)}>${row.shut ? "▸" : "▾"}</button> <strong>${plain(row.label)}</strong> <${Id} id=${row.group} /> <span class="faint num">${formatNumber(row.count)}</span></span>`
			: html`<span class=${`indent d${flat ? 0 : row.depth}`}><a class="cover" href=${`#/processes/${row.processId}`}><${Command} text=${textOf(row)} /></a></span>` },
		{ key: "status", label: "Status", width: "140px", sortable: true, render: cell((row) => html`<${Outcome} process=${row} />`) },
		{ key: "cpu", label: "CPU", width: "54px", from: 560, align: "right", sortable: true, desc: true, render: (row) => html`<span class=${`num ${row.group ? "faint" : ""}`}>${isLive(row) || row.group ? percent(row.cpu) : ""}</span>` },
		{ key: "memory", label: "Memory", width: "70px", from: 560, align: "right", sortable: true, desc: true,
			render: (row) => html`<span class=${`num ${row.group || !isLive(row) ? "faint" : ""}`}>${row.group ? (row.memory ? formatBytes(row.memory) : "") : row.usage ? formatBytes(row.usage.memoryBytes ?? row.usage.maxRssBytes) : ""}</span>` },
		{ key: "tasks", label: "Tasks", width: "44px", from: 1250, align: "right", sortable: true, desc: true, render: cell((row) => html`<span class="num">${row.usage?.tasks ?? ""}</span>`) },
		{ key: "io", label: "Read / written", width: "138px", from: 1250, align: "right", sortable: true, desc: true,
			render: cell((row) => row.usage?.readBytes === undefined ? "" : html`<span class="num">${formatBytes(row.usage.readBytes)} / ${formatBytes(row.usage.writeBytes)}</span>`) },
		{ key: "user", label: "User", width: "60px", from: 900, sortable: true, render: cell((row) => plain(row.user ?? row.uid ?? "")) },
		{ key: "started", label: "Started", width: "80px", from: 700, align: "right", sortable: true, desc: true, render: cell((row) => html`<${Time} at=${row.startedAt ?? row.endedAt} />`) },
		{ key: "duration", label: "Duration", width: "88px", from: 700, align: "right", sortable: true, desc: true,
			render: cell((row) => row.status === "waiting_permission" ? "" : html`<${Duration} ms=${row.durationMs} since=${isLive(row) ? row.startedAt : undefined} />`) },
		{ key: "id", label: "Id", width: "100px", from: 1000, render: cell((row) => html`<${Id} id=${row.processId} />`) },
	];
}

// Ends many; returns when every tree is proved to have terminated.
async function terminateAll(ids) {
	const failed = [];
	await Promise.all(ids.map((processId) => call("terminate_process", { processId }).catch((e) => e.code !== "invalid_state" && failed.push(e))));
	if (failed.length)
		throw failed[0];
	notify(ids.length === 1 ? "Terminated" : `${ids.length} processes terminated`);
}

function Processes({ query, setQuery }) {
	const scope = query.session ? { sessionId: query.session } : {};
	const all = (query.show ?? (query.session && "all")) === "all";
	const flat = query.view === "flat" || Boolean(query.sort);
	const sort = { key: query.sort || "started", desc: query.desc !== "0" };
	const live = useLive(scope);
	const ended = useEnded(all, scope);
	const sandboxes = useCall("list_sandboxes", { limit: 1000 }, { refreshOn: (e) => e.type.startsWith("sandbox.c") });
	const sessions = useCall("list_sessions", { limit: 1000 }, { refreshOn: (e) => e.type === "session.created" || e.type === "session.updated" });
	const [selected, setSelected] = useState(new Set());
	const [closed, setClosed] = useState(new Set());
	const soon = useRef(0);
	const changed = useRef({ any: false, ids: new Set() });
	const refresh = async () => {
		const { ids } = changed.current;
		changed.current = { any: false, ids: new Set() };
		// What has ended is in one list before it leaves the other.
		if (all)
			await ended.refresh(ids).catch(() => ids.forEach((id) => changed.current.ids.add(id)));
		await live.load();
		soon.current = changed.current.any || changed.current.ids.size ? setTimeout(refresh, changed.current.any ? SOON_MS : POLL_MS) : 0;
	};
	useEvents((e) => (!query.session || e.sessionId === query.session) && /^process\.(started|completed|failed|terminated|lost)$|^permission\.(requested|resolved)$/.test(e.type), (e) => {
		changed.current.any = true;
		if (e.processId)
			changed.current.ids.add(e.processId);
		soon.current ||= setTimeout(refresh, SOON_MS);
	});
	useEffect(() => () => clearTimeout(soon.current), []);

	const titles = useMemo(() => new Map([...(sessions.data?.sessions ?? []).map((s) => [s.sessionId, s.title ?? ""]), ...(sandboxes.data?.sandboxes ?? []).map((s) => [s.sandboxId, s.name ? (s.name === s.sessionId ? "The session's sandbox" : `Sandbox ${s.name}`) : ""])]), [sessions.data, sandboxes.data]);
	const merged = useMemo(() => (all ? mergeNewest(live.rows, ended.rows) : live.rows), [all, live.rows, ended.rows]);
	const found = useMemo(() => {
		const words = (query.filter ?? "").toLowerCase().split(/\s+/).filter(Boolean);
		return !words.length && !query.status ? merged : merged.filter((row) => (!query.status || row.status === query.status) && matches(row, words, titles));
	}, [merged, query.filter, query.status, titles]);
	const rows = useMemo(() => {
		const ordered = sorted(found, flat ? sort : { key: "started", desc: true });
		return flat ? ordered : tree(ordered, titles, closed);
	}, [found, flat, sort.key, sort.desc, titles, closed]);

	const toggleGroup = (id) => setClosed((old) => {
		const next = new Set(old);
		if (!next.delete(id))
			next.add(id);
		return next;
	});
	const cols = useMemo(() => columns({ toggleGroup, flat }), [flat]);
	const running = useMemo(() => found.filter((r) => isLive(r) && selected.has(r.processId)), [found, selected]);
	return html`<${Page} fill title="Processes" count=${`${formatNumber(found.length)}${all && !ended.done ? "+" : ""}`} cli=${query.session ? ["history", "--session", query.session] : ["ps", ...(all ? ["--all"] : [])]}
		actions=${html`<${Confirm} label=${running.length ? `Terminate ${formatNumber(running.length)}` : "Terminate"} disabled=${!running.length || !can("agent")} question=${running.length === 1 ? "Terminate this process?" : `Terminate ${formatNumber(running.length)} processes?`} confirm="Terminate"
			detail=${html`<ul class="plain-list">${running.slice(0, 8).map((r) => html`<li><${Command} text=${textOf(r)} /></li>`)}${running.length > 8 && html`<li class="faint">and ${formatNumber(running.length - 8)} more</li>`}</ul>
			<p class="faint">Each gets a signal and, after the grace time, its whole process tree is killed.</p>`}
			onConfirm=${() => terminateAll(running.map((r) => r.processId)).then(() => setSelected(new Set()))} />`}>
		<div class="toolbar"><input type="search" placeholder="Filter by command, folder, user, session" aria-label="Filter" value=${query.filter ?? ""} onInput=${(e) => setQuery({ filter: e.target.value })} />
			<select aria-label="Which processes" value=${all ? "all" : "live"} onChange=${(e) => setQuery({ show: e.target.value === "all" ? "all" : query.session ? "live" : undefined, status: undefined })}><option value="live">Running and waiting</option><option value="all">All</option></select>
			${all && html`<select aria-label="Status" value=${query.status ?? ""} onChange=${(e) => setQuery({ status: e.target.value })}><option value="">Any status</option>${["running", "waiting_permission", "completed", "failed", "terminated", "lost"].map(
				(s) => html`<option value=${s}>${s.replaceAll("_", " ")}</option>`)}</select>`}
			<select aria-label="Arrangement" value=${flat ? "flat" : "tree"} onChange=${(e) => setQuery({ view: e.target.value === "flat" ? "flat" : undefined, sort: undefined, desc: undefined })}><option value="tree">By session and sandbox</option><option value="flat">Flat list</option></select>
			${query.session && html`<button class="small" onClick=${() => setQuery({ session: undefined })}>of session …${plain(query.session.slice(-6))} ✕</button>`}
			<span class="grow"></span>${selected.size > 0 && html`<button class="quiet" onClick=${() => setSelected(new Set())}>${formatNumber(selected.size)} selected · clear</button>`}</div>
		<${ErrorBox} error=${live.error} retry=${live.load} />
		<${Table} label="Processes" columns=${cols} rows=${rows} rowKey=${(row) => row.group ?? row.processId} selected=${selected} sort=${flat ? sort : undefined}
			onSelect=${(set) => setSelected(new Set([...set].filter((id) => id.startsWith("proc_"))))} onSort=${({ key, desc }) => setQuery({ sort: key, desc: desc ? undefined : "0" })}
			onOpen=${(row) => row.group ? toggleGroup(row.group) : (location.hash = `#/processes/${row.processId}`)} onEnd=${all ? ended.more : undefined}
			rowClass=${(row) => (row.group ? "group" : "")} empty=${live.loaded ? (query.filter || query.status ? "No process matches." : "Nothing is running.") : "Loading…"} /><//>`;
}

// The processes of another session are another list.
export default (props) => html`<${Processes} key=${props.query.session ?? ""} ...${props} />`;
