// The state of everything at a glance: what runs, what waits, what was denied, health, and plots over time.

import { call, get, useCall, useLoad } from "./api.js";
import { Card, Command, Duration, Empty, ErrorBox, Facts, Loading, Meter, Page, Plot, Status, Text, Time, formatBytes, formatDuration, formatNumber, formatUsd, html, plain, useMemo } from "./parts.js";
import { textOf } from "./processes.js";

const DENIALS_SHOWN = 7;
const DENIAL_PAGES = 3;         // of decisions that are searched for them
const perSecond = (v) => (v === null || v === undefined ? "–" : `${formatBytes(v)}/s`);
const percent = (v) => (v === null || v === undefined ? "–" : `${formatNumber(Math.round(v * 10) / 10)} %`);
// Series of the gateway (docs/console.md): label and format.
const SERIES = {
	commandsPerSecond: ["Commands per second", formatNumber], running: ["Running processes", formatNumber], cpuPercent: ["CPU of commands", percent], daemonMemoryBytes: ["Memory of the daemon", formatBytes],
	outputBytesPerSecond: ["Output", perSecond], costUsd: ["Cost of models", formatUsd], approvals: ["Approvals asked", formatNumber], denials: ["Denials", formatNumber],
};

function Plots() {
	const { data, error } = useLoad("series", () => get("/api/series"), { every: 10000 });
	const columns = useMemo(() => data && [0, ...data.names.map((_, i) => i + 1)].map((i) => data.points.map((p) => (i ? p[i] : p[0] / 1000))), [data]);
	if (!data)
		return html`<${ErrorBox} error=${error} />`;
	return html`<section aria-label="Over time"><h2 class="section">Over time</h2>${data.points.length < 2
		? html`<${Empty}>The first points come after ${formatDuration(2 * data.intervalMs)}.<//>`
		: html`<div class="plots">${data.names.map((name, i) => {
			const [label, format] = SERIES[name] ?? [name, formatNumber];
			return html`<${Plot} key=${name} label=${label} names=${[label]} series=${[columns[0], columns[i + 1]]} format=${format} bytes=${/Bytes/.test(name)} />`;
		})}</div>`}</section>`;
}

function Running() {
	const { data, error, reload } = useCall("list_processes", { liveOnly: true, helpers: false, usage: true, limit: 1000 }, { every: 5000, refreshOn: (e) => /^process\.(started|completed|failed|terminated)$/.test(e.type) });
	const rows = (data?.processes ?? []).filter((p) => p.status === "running");
	return html`<${Card} title=${html`Running <span class="count num">${data ? `${formatNumber(rows.length)}${data.nextCursor ? "+" : ""}` : ""}</span>`} actions=${html`<a href="#/processes">All processes</a>`}><${ErrorBox} error=${error} retry=${reload} />
		${data && !rows.length && html`<${Empty}>Nothing is running.<//>`}<ul class="rows">${rows.slice(0, 7).map((p) => html`<li><a href=${`#/processes/${p.processId}`}><${Command} text=${textOf(p)} /></a><span class="num faint">${p.usage?.memoryBytes !== undefined ? formatBytes(p.usage.memoryBytes) : ""}</span>
		<${Duration} since=${p.startedAt} /></li>`)}</ul><//>`;
}

function Pending() {
	const { data, error, reload } = useCall("list_actions", { status: "pending", limit: 1000 }, { refreshOn: (e) => e.type.startsWith("action.") });
	const rows = data?.actions ?? [];
	return html`<${Card} title=${html`Waiting for an answer <span class=${rows.length ? "badge" : "count num"}>${data ? rows.length : ""}</span>`} actions=${html`<a href="#/approvals">Answer</a>`}><${ErrorBox} error=${error} retry=${reload} />
		${data && !rows.length && html`<${Empty}>Nothing waits.<//>`}<ul class="rows">${[...rows].reverse().slice(0, 7).map((a) => html`<li><a href=${`#/approvals?id=${a.actionId}`}><${Command} text=${(a.prompt ?? a.actionType).replace(/^run in .*?: /s, "")} /></a>
		${a.policy?.destructive ? html`<span class="bad">▲ destructive</span>` : html`<span></span>`}<${Time} at=${a.createdAt} /></li>`)}</ul><//>`;
}

const denialText = (e) => {
	const p = e.payload;
	if (e.type === "permission.evaluated")
		return ["policy", p.command?.display ?? p.toolName ?? ""];
	return [`${p.kind} ${p.operation}`, p.path ?? p.host ?? p.address ?? p.syscall ?? ""];
};

async function loadDenials() {
	const found = [];
	let before;
	for (let i = 0; i < DENIAL_PAGES && found.length < DENIALS_SHOWN; i++) {
		const page = await call("list_events", { order: "desc", types: ["sandbox.violation", "permission.evaluated"], limit: 1000, beforeSequence: before });
		found.push(...page.events.filter((e) => e.type === "sandbox.violation" || (e.payload.permissionDecision.decision === "deny" && !e.payload.dryRun)));
		if (!page.hasMore)
			break;
		before = page.events[page.events.length - 1].sequence;
	}
	return found.slice(0, DENIALS_SHOWN);
}

function Denials() {
	const { data, error, reload } = useLoad("denials", () => loadDenials(), { refreshOn: (e) => e.type === "sandbox.violation" || (e.type === "permission.evaluated" && e.payload.permissionDecision.decision === "deny") });
	return html`<${Card} title="Recent denials" actions=${html`<a href="#/history?denied=1">History</a>`}><${ErrorBox} error=${error} retry=${reload} />${data && !data.length && html`<${Empty}>Nothing was denied lately.<//>`}
		<ul class="rows">${(data ?? []).map((e) => {
			const [what, target] = denialText(e);
			return html`<li><a href=${e.processId ? `#/processes/${e.processId}?tab=denials` : `#/events?seq=${e.sequence}`}><code class="command"><${Text} text=${target} /></code></a><span class="faint">${plain(what)}</span><${Time} at=${e.timestamp} /></li>`;
		})}</ul><//>`;
}

function Health() {
	const { data, error, reload } = useCall("get_health", {}, { every: 10000 });
	if (!data)
		return html`<${Card} title="Health">${error ? html`<${ErrorBox} error=${error} retry=${reload} />` : html`<${Loading} />`}<//>`;
	const used = data.store.databaseBytes + data.store.spoolBytes;
	const limits = data.limits?.controllers ?? [];
	const missing = limits.filter((c) => c.state !== "enforced");
	return html`<${Card} title="Health" actions=${html`<${Status} status=${data.status} />`}><${ErrorBox} error=${error} /><${Facts} rows=${[
		["Daemon", html`${plain(data.version)}, up <${Duration} since=${data.startedAt} />`],
		["Store", html`<${Meter} label="Store" value=${used} max=${data.store.quotaBytes} text=${`${formatBytes(used)} of ${formatBytes(data.store.quotaBytes)}`} />`],
		["Log", html`<span class="num">${formatNumber(data.store.lastSequence)} events</span>${data.store.full ? html` <span class="bad">the disk is full</span>` : ""}`],
		["Limits", missing.length ? html`<span class="wait">not enforced: ${plain(missing.map((c) => c.name).join(", "))}</span>` : limits.length ? "enforced by cgroups" : html`<span class="wait">unavailable</span>`],
		["Denials", html`<span class=${data.violations?.state === "enforced" ? "" : "wait"}>${plain(data.violations?.confidence ?? data.violations?.state ?? "–")}</span>${data.violations?.why ? html` <span class="faint">${plain(data.violations.why)}</span>` : ""}`],
		["Clients", html`<span class="num">${formatNumber(data.connections)}</span> connected`],
	]} /><//>`;
}

const WINDOWS = { day: " a day", month: " a month" };

// What the policy allows to be spent in a window, and what models have cost since the daemon began to count.
function Budgets() {
	const { data, error } = useCall("get_metrics", {}, { every: 30000, refreshOn: (e) => /^(cost|limit|quota|policy|action)\./.test(e.type) });
	const counters = data?.counters ?? {};
	const decisions = counters.permissionDecisions ?? {};
	return html`<${Card} title="Decisions and cost" actions=${html`<a href="#/policy">Policy</a>`}><${ErrorBox} error=${error} />${data && html`<${Facts} rows=${[
		["Allowed", html`<span class="num">${formatNumber(decisions.allow)}</span>`], ["Asked", html`<span class="num">${formatNumber(decisions.ask)}</span>`], ["Denied", html`<span class="num">${formatNumber(decisions.deny)}</span>`],
		["Approved", counters.actions && html`<span class="num">${formatNumber(counters.actions.allow)} of ${formatNumber(counters.actions.required)}</span>`],
		["Model requests", counters.modelRequests && html`<span class="num">${formatNumber(Object.values(counters.modelRequests).reduce((a, b) => a + b, 0))}</span>`],
		["Cost", html`<span class="num">${formatUsd((counters.spent?.microUsd ?? 0) / 1e6)}</span> <span class="faint">since the daemon started</span>`],
		...data.budgets.map((b) => [html`Budget ${plain(b.name)}`, html`<${Meter} label=${`Budget ${plain(b.name)}`} value=${b.spentMicroUsd} max=${b.limitMicroUsd}
			text=${`${formatUsd(b.spentMicroUsd / 1e6)} of ${formatUsd(b.limitMicroUsd / 1e6)}${WINDOWS[b.window] ?? ""}`} />${b.state !== "ok" && html` <span class=${b.state === "blocked" ? "bad" : "wait"}>${b.state === "blocked" ? "used up" : plain(b.state)}</span>`}`]),
	]} />`}<//>`;
}

// Tasks and jobs that have not ended.
function Work() {
	const changed = { refreshOn: (e) => /^(task|job)\./.test(e.type) };
	const tasks = useCall("list_tasks", { liveOnly: true, limit: 1000 }, changed);
	const jobs = useCall("list_jobs", { liveOnly: true, limit: 1000 }, changed);
	const rows = [...(tasks.data?.tasks ?? []).map((t) => [t.taskId, t.title ?? t.objective, t.status]), ...(jobs.data?.jobs ?? []).map((j) => [j.jobId, `job of ${formatNumber(j.itemCount ?? j.items?.length ?? j.total)} items`, j.status])];
	return html`<${Card} title=${html`Tasks and jobs <span class="count num">${tasks.data && jobs.data ? formatNumber(rows.length) : ""}</span>`} actions=${html`<a href="#/tasks">Tasks</a><a href="#/jobs">Jobs</a>`}>
		<${ErrorBox} error=${tasks.error ?? jobs.error} />${tasks.data && jobs.data && !rows.length && html`<${Empty}>No open task or job.<//>`}
		<ul class="rows">${rows.slice(0, 6).map(([id, text, status]) => html`<li><a href=${`#/${id.startsWith("job_") ? "jobs" : "tasks"}/${encodeURIComponent(id)}`}><${Text} text=${text} /></a><span></span><${Status} status=${status} /></li>`)}</ul><//>`;
}

export default function Overview() {
	return html`<${Page} title="Overview" cli=${["top"]}><div class="cards overview"><${Running} /><${Pending} /><${Denials} /><${Health} /><${Work} /><${Budgets} /></div><${Plots} /><//>`;
}
