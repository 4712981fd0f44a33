// Jobs: the same work for many items, each with its own attempts and output.

import { call, can, useCall } from "./api.js";
import { Act, Choice, Output, useAction, usePages } from "./lists.js";
import { Card, Command, Confirm, ErrorBox, Facts, Id, Loading, Meter, Page, Status, Table, Text, Time, Duration,
	formatNumber, html, plain, useMemo } from "./parts.js";

const STATUS = ["accepted", "running", "cancelling", "completed", "failed", "cancelled"];

export const commandOf = (c) => (!c ? "" : c.agent ? html`<span class="faint">agent:</span> <${Text}
	text=${c.agent.prompt} />` : html`<${Command} argv=${c.command} text=${c.commandLine} />`);

function Progress({ job }) {
	const p = job.progress ?? {};
	const done = (p.completed ?? 0) + (p.failed ?? 0) + (p.reported ?? 0);
	return html`<span class="progress" role="meter" aria-label="Items that have ended" aria-valuemin="0"
		aria-valuemax=${p.total ?? 0} aria-valuenow=${done}>
		<span class="stack" aria-hidden="true">${[["good", p.completed], ["off", p.reported], ["bad", p.failed],
			["live", p.running]].map(([tone, n]) => n > 0 && html`<i class=${`fill-${tone}`}
			style=${{ width: `${(100 * n) / (p.total || 1)}%` }}></i>`)}</span>
		<span class="num">${formatNumber(done)} of ${formatNumber(p.total)}${p.failed ? html`, <span class="bad">
			${formatNumber(p.failed)} failed</span>` : ""}</span></span>`;
}

const COLUMNS = [
	{ key: "id", label: "Job", width: "110px", render: (j) => html`<${Id} id=${j.jobId} />` },
	{ key: "status", label: "Status", width: "110px", render: (j) => html`<${Status} status=${j.status} />` },
	{ key: "progress", label: "Items", width: "220px", render: (j) => html`<${Progress} job=${j} />` },
	{ key: "command", label: "Command", width: "minmax(160px, 2fr)", from: 700, render: (j) => (j.command ? commandOf(j.command) : html`<span class="faint">one for each item</span>`) },
	{ key: "created", label: "Created", width: "90px", from: 560, render: (j) => html`<${Time} at=${j.createdAt} />` },
	{ key: "duration", label: "Duration", width: "90px", from: 560, align: "right", render: (j) => html`<${Duration}
		since=${j.startedAt} until=${j.endedAt} />` },
];

function List({ query, setQuery }) {
	const params = { ...(query.status ? { status: query.status } : {}), ...(query.live ? { liveOnly: true } : {}), ...(query.session ? { sessionId: query.session } : {}), ...(query.task ? { taskId: query.task } : {}) };
	const { rows, error, loading, more, onView, hasMore, reload } = usePages("list_jobs", params, "jobs", (j) => j.jobId, { refreshOn: (e) => /^job\.(created|started|progress|completed|failed|cancelled)$/.test(e.type) });
	const cli = ["job", "list", ...(query.live ? [] : ["-a"])];
	return html`<${Page} title="Jobs" count=${`${formatNumber(rows.length)}${hasMore ? "+" : ""}`} cli=${cli} fill>
		<div class="toolbar"><${Choice} label="Status" value=${query.status ?? ""} options=${[["", "any"], ...STATUS]}
			onChange=${(status) => setQuery({ status })} />
			<label><input type="checkbox" checked=${Boolean(query.live)}
				onChange=${(e) => setQuery({ live: e.target.checked ? "1" : undefined })} />Only running</label>
			${query.session && html`<button class="small"
				onClick=${() => setQuery({ session: undefined })}>of session …${plain(query.session.slice(-6))} ✕</button>`}</div>
		<${ErrorBox} error=${error} retry=${reload} />
		${loading ? html`<${Loading} />` : html`<${Table} label="Jobs" columns=${COLUMNS} rows=${rows}
			rowKey=${(j) => j.jobId} onEnd=${more} onView=${onView} onOpen=${(j) => (location.hash = `#/jobs/${j.jobId}`)}
			empty="No job. Create one with: bailiff job run --items FILE -- CMD {item}" />`}<//>`;
}

const ENDED = ["completed", "failed", "cancelled", "reported"];

function One({ id, query, setQuery }) {
	const concerns = (e) => e.jobId === id && e.type.startsWith("job.");
	const { data: job, error, reload } = useCall("get_job", { jobId: id, limit: 1 }, { refreshOn: concerns });
	const items = usePages("get_job", { jobId: id, limit: 1000 }, "items", (i) => i.itemId, { refreshOn: concerns,
		cursorOf: (i) => String(i.index + 1) });
	const [run, busy] = useAction();
	const shown = useMemo(() => items.rows.filter((i) => !query.status || i.status === query.status), [items.rows, query.status]);
	const item = items.rows.find((i) => i.itemId === query.item);
	const retry = (i) => run(async () => {
		await call("retry_job_item", { jobId: id, itemId: i.itemId, reason: "console" });
		items.reload();
	}, `Retrying ${plain(i.itemId)}`);
	const columns = [
		{ key: "index", label: "#", width: "56px", align: "right", render: (i) => html`<span class="num">
			${i.index}</span>` },
		{ key: "item", label: "Item", width: "minmax(120px, 1fr)", render: (i) => html`<${Act}
			onClick=${() => setQuery({ item: i.itemId })}><code><${Text} text=${i.itemId} /></code><//>` },
		{ key: "status", label: "Status", width: "110px", render: (i) => html`<${Status} status=${i.status} />` },
		{ key: "attempts", label: "Attempts", width: "70px", from: 560, align: "right", render: (i) => html`<span class="num">
			${i.attemptCount ?? 0}</span>` },
		{ key: "error", label: "Last error", width: "minmax(120px, 1fr)", from: 480, render: (i) => html`<span class="bad">
			<${Text} text=${i.lastError?.message ?? ""} /></span>` },
		{ key: "process", label: "Process", width: "120px", from: 700, render: (i) => html`<${Id} id=${i.processId} />` },
		{ key: "duration", label: "Duration", width: "90px", from: 560, align: "right", render: (i) => (i.startedAt
			? html`<${Duration} since=${i.startedAt} until=${i.endedAt} />` : "–") },
	];
	if (!job)
		return html`<${Page} title="Job" cli=${["job", "show", id]}>${error ? html`<${ErrorBox} error=${error}
			retry=${reload} />` : html`<${Loading} />`}<//>`;
	const open = !["completed", "failed", "cancelled"].includes(job.status);
	return html`<${Page} title="Job" cli=${["job", "show", id]} fill actions=${html`${open && can("agent")
		&& html`<${Confirm} label="Cancel job" confirm="Cancel the job"
		question="Cancel this job? Running items are ended."
			onConfirm=${async () => {
				await call("cancel_job", { jobId: id, reason: "console" });
				reload();
			}} />`}`}>
		<${ErrorBox} error=${error ?? items.error} retry=${reload} />
		<div class="cards pad"><${Card} title=${html`<${Status} status=${job.status} />`}><${Facts} rows=${[
			["Id", html`<${Id} id=${id} full />`], ["Items", html`<${Progress} job=${job} />`],
				["Parallel", formatNumber(job.maxParallel)],
			["Command", job.command && commandOf(job.command)], ["Session", html`<${Id} id=${job.sessionId} />`], ["Task", job.taskId
				&& html`<${Id} id=${job.taskId} />`],
			["Started", job.startedAt && html`<${Time} at=${job.startedAt} abs /> for <${Duration}
				since=${job.startedAt} until=${job.endedAt} />`],
				["Reason", job.statusReason && plain(job.statusReason)],
		]} /><//>
		${item && html`<${Card} title=${html`Item <code><${Text} text=${item.itemId} /></code> <${Status}
			status=${item.status} />`} actions=${html`${can("agent") && ENDED.includes(item.status)
			&& html`<button class="small" disabled=${busy} onClick=${() => retry(item)}>Retry</button>`}
			<button class="quiet small" onClick=${() => setQuery({ item: undefined })}>Close</button>`}>
			<${Facts} rows=${[["Input", item.input !== undefined && html`<code>
				<${Text} text=${typeof item.input === "string" ? item.input : JSON.stringify(item.input)} lines /></code>`],
				["Process", item.processId && html`<${Id} id=${item.processId} />`],
				["Thread", item.threadId && html`<${Id} id=${item.threadId} />`], ["Error", item.lastError
					&& html`<span class="bad"><${Text} text=${item.lastError.message} /></span>`],
					["Summary", item.summary && html`<${Text} text=${item.summary} lines />`]]} />
			${(item.outputRefs ?? []).filter((o) => o.bytes).map((o) => html`<h3>${plain(o.stream ?? "output")}</h3>
				<${Output} auto key=${o.outputRef} outputRef=${o.outputRef}
				label=${`${o.stream} of ${plain(item.itemId)}`} />`)}<//>`}</div>
		<div class="toolbar"><${Choice} label="Items" value=${query.status ?? ""}
			options=${[["", "all"], "pending", "running", "completed", "reported", "failed", "cancelled"]}
			onChange=${(status) => setQuery({ status })} />
			<span class="faint">Enter shows an item</span></div>
		<${Table} label="Items" columns=${columns} rows=${shown} rowKey=${(i) => i.itemId} onEnd=${items.more} onView=${items.onView}
			onOpen=${(i) => setQuery({ item: i.itemId })}
			rowClass=${(i) => (i.itemId === query.item ? "current" : "")} /><//>`;
}

export default function View({ path, query, setQuery }) {
	return path[0] ? html`<${One} id=${path[0]} query=${query} setQuery=${setQuery} />` : html`<${List} query=${query}
		setQuery=${setQuery} />`;
}
