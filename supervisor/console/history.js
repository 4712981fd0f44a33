// What has run: search by command, output, result, time, user, path and host. The newest come first.

import { Check, Field, usePages } from "./lists.js";
import { Outcome } from "./processes.js";
import { Command, ErrorBox, Id, Loading, Page, Table, Text, Time, Duration, formatNumber, html, plain,
	useMemo } from "./parts.js";

const UNITS = { s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 };

// 90s, 15m, 2h, 3d, 1w (ago), or a date and time, in ms; NaN if it is neither.
export function parseWhen(text, now = Date.now()) {
	const ago = /^(\d+(?:\.\d+)?)\s*([smhdw])$/.exec(text.trim());
	if (ago)
		return Math.round(now - ago[1] * UNITS[ago[2]]);
	return Date.parse(/^\d{4}-\d\d-\d\d$/.test(text.trim()) ? `${text.trim()}T00:00` : text.trim().replace(" ", "T"));
}

const FIELDS = [
	["grep", "Command has", "200px", "text"], ["output", "Output has", "160px", "text"],
		["exit", "Exit", "110px", "0, 1, nonzero"], ["since", "Since", "190px", "2h, 3d, 2026-11-16 10:00"],
		["until", "Until", "150px", "1h"],
	["cwd", "Directory", "180px", "/path"], ["path", "Touched path", "160px", "/path"],
		["host", "Host", "130px", "example.com"], ["user", "User", "110px", "name or uid"],
		["session", "Session", "200px", "sess_…"],
];

const COLUMNS = [
	{ key: "command", label: "Command", width: "minmax(180px, 3fr)", render: (p) => html`<a class="cover" tabindex="-1" href=${`#/processes/${p.processId}`}>
		<${Command} argv=${p.commandLine ? undefined : p.command} text=${p.commandLine} /></a>` },
	{ key: "status", label: "Status", width: "150px", render: (p) => html`<${Outcome} process=${p} />` },
	{ key: "started", label: "Started", width: "90px", from: 560, render: (p) => html`<${Time}
		at=${p.startedAt ?? p.createdAt} />` },
	{ key: "duration", label: "Duration", width: "90px", from: 700, align: "right", render: (p) => (p.durationMs !== undefined
		? html`<${Duration} ms=${p.durationMs} />` : p.startedAt ? html`<${Duration} since=${p.startedAt}
		until=${p.endedAt} />` : "") },
	{ key: "denied", label: "Denials", width: "65px", from: 700, align: "right",
		render: (p) => html`<span class=${p.violationCount ? "num wait" : "num faint"}>
		${p.violationCount ?? 0}</span>` },
	{ key: "cwd", label: "Directory", width: "minmax(100px, 1fr)", from: 800, render: (p) => html`<code title=${plain(p.cwd ?? "")}>
		<${Text} text=${p.cwd ?? ""} /></code>` },
	{ key: "user", label: "User", width: "70px", from: 900, render: (p) => plain(p.user ?? p.uid ?? "") },
	{ key: "session", label: "Session", width: "110px", from: 1000, render: (p) => html`<${Id} id=${p.sessionId} />` },
	{ key: "id", label: "Process", width: "110px", from: 1000, render: (p) => html`<${Id} id=${p.processId} />` },
];

export default function View({ query, setQuery }) {
	const problems = [];
	const params = useMemo(() => {
		const p = {};
		for (const key of ["grep", "output", "cwd", "path", "host", "user", "session"])
			if (query[key])
				p[key] = query[key];
		if (query.exit)
			p.exit = query.exit === "nonzero" ? "nonzero" : Number(query.exit);
		for (const key of ["since", "until"])
			if (query[key])
				p[key] = parseWhen(query[key]);
		if (query.denied)
			p.denied = true;
		return p;
	}, [JSON.stringify(query)]);
	if (query.exit && query.exit !== "nonzero" && !Number.isInteger(Number(query.exit)))
		problems.push("Exit: a number, or nonzero");
	for (const key of ["since", "until"])
		if (query[key] && Number.isNaN(params[key]))
			problems.push(`${key === "since" ? "Since" : "Until"}: a time such as 2h, 3d or 2026-11-16 10:00`);
	const { rows, error, loading, more, onView, hasMore, reload } = usePages("search_history", problems.length ? {} : params, "processes", (p) => p.processId, {
		cursorName: "before", nextName: "next", least: 50, skip: problems.length > 0,
			refreshOn: (e) => !query.until && /^process\.(started|completed|failed|terminated)$/.test(e.type),
	});
	const cli = ["history", ...["since", "until", "exit", "grep", "output", "cwd", "path", "host", "user", "session"].flatMap((k) => (query[k] ? [`--${k}`, query[k]] : [])), ...(query.denied ? ["--denied"] : [])];
	const any = FIELDS.some(([key]) => query[key]) || query.denied;
	return html`<${Page} title="History" count=${`${formatNumber(rows.length)}${hasMore ? "+" : ""}`}
		cli=${cli} fill actions=${any
		&& html`<button onClick=${() => setQuery({ ...Object.fromEntries(FIELDS.map(([key]) => [key, undefined])),
		denied: undefined })}>Clear</button>`}>
		<search class="toolbar conditions" aria-label="Search the history">
			${FIELDS.map(([key, label, width, hint], i) => html`<${Field} key=${key} label=${label}
			type=${i ? "text" : "search"} value=${query[key] ?? ""} width=${width} placeholder=${hint}
			onChange=${(value) => setQuery({ [key]: value.trim() })} />`)}
			<${Check} label="With denials" value=${query.denied}
				onChange=${(on) => setQuery({ denied: on ? "1" : undefined })} /></search>
		${problems.length > 0 && html`<div class="error" role="alert">${problems.join("; ")}</div>`}<${ErrorBox}
			error=${error} retry=${reload} />
		${loading && !problems.length && !error ? html`<${Loading} />` : html`<${Table} label="Processes found"
			columns=${COLUMNS} rows=${rows} rowKey=${(p) => p.processId} onEnd=${more} onView=${onView}
			onOpen=${(p) => (location.hash = `#/processes/${p.processId}`)}
			empty=${hasMore ? "Nothing found so far." : any ? "Nothing matches." : "Nothing has run yet."} />`}
		${hasMore && html`<div class="toolbar top-gap">
			<button onClick=${more}>Search further back</button></div>`}<//>`;
}
