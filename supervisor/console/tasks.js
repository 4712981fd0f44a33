// Tasks, and one task with its attempts and what it depends on.

import { call, can, useCall, useLoad } from "./api.js";
import { Graph } from "./graph.js";
import { commandOf } from "./jobs.js";
import { Act, Choice, Json, Output, useAction, usePages } from "./lists.js";
import { Card, Cli, Confirm, ErrorBox, Facts, Id, Loading, Meter, Page, Status, Table, Tabs, Text, Time, Duration,
	formatNumber, html, plain, useMemo } from "./parts.js";

const STATUS = ["draft", "accepted", "queued", "preparing", "running", "waiting_input", "waiting_permission", "waiting_resource", "blocked", "paused", "retrying", "cancelling", "cancelled", "timed_out", "failed", "lost", "completed", "archived"];
const ENDED = ["cancelled", "timed_out", "failed", "lost", "completed", "archived"];
const GRAPH_MAX = 80;

const nameOf = (t) => t.title || t.objective || t.taskId;
const percentOf = (t) => t.progress?.percent;

const COLUMNS = [
	{ key: "id", label: "Task", width: "110px", render: (t) => html`<${Id} id=${t.taskId} />` },
	{ key: "status", label: "Status", width: "140px", render: (t) => html`<${Status} status=${t.status} />` },
	{ key: "name", label: "Objective", width: "minmax(180px, 2fr)", render: (t) => html`<${Text} text=${nameOf(t)} />
		${t.visibility === "internal" && html` <span class="faint">internal</span>`}` },
	{ key: "progress", label: "Progress", width: "170px", from: 800, render: (t) => (percentOf(t) !== undefined
		? html`<${Meter} value=${percentOf(t)} max=${100} label="Progress" text=${`${percentOf(t)} %`} />`
		: html`<${Text} text=${t.progress?.step ?? t.progress?.summary ?? t.progress?.phase ?? ""} />`) },
	{ key: "attempts", label: "Attempts", width: "70px", from: 700, align: "right", render: (t) => html`<span class="num">
		${t.attemptCount ?? 0}${t.retryPolicy?.maxAttempts ? `/${t.retryPolicy.maxAttempts}` : ""}</span>` },
	{ key: "reason", label: "Reason", width: "minmax(120px, 1fr)", from: 900, render: (t) => html`<${Text}
		text=${t.statusReason ?? ""} />` },
	{ key: "session", label: "Session", width: "110px", from: 1000, render: (t) => html`<${Id} id=${t.sessionId} />` },
	{ key: "updated", label: "Updated", width: "90px", from: 560, render: (t) => html`<${Time} at=${t.updatedAt} />` },
];

const isTask = (e) => e.type.startsWith("task.") && e.type !== "task.output";

function List({ query, setQuery }) {
	const params = { ...(query.status ? { status: query.status } : {}), ...(query.live ? { liveOnly: true } : {}), ...(query.session ? { sessionId: query.session } : {}) };
	const { rows, error, loading, more, onView, hasMore, reload } = usePages("list_tasks", params, "tasks", (t) => t.taskId, { refreshOn: isTask });
	const text = (query.filter ?? "").toLowerCase();
	const shown = useMemo(() => rows.filter((t) => (query.internal || !["internal", "hidden"].includes(t.visibility)) && (!text || `${nameOf(t)} ${t.taskId}`.toLowerCase().includes(text))), [rows, text, query.internal]);
	const cli = ["task", "list", ...(query.live ? [] : ["-a"]), ...(query.status ? ["--status", query.status] : []), ...(query.session ? ["--session", query.session] : [])];
	return html`<${Page} title="Tasks" count=${`${formatNumber(shown.length)}${hasMore ? "+" : ""}`} cli=${cli} fill>
		<div class="toolbar"><label>Filter<input type="search" value=${query.filter ?? ""}
			onInput=${(e) => setQuery({ filter: e.target.value })} placeholder="objective or id" /></label>
			<${Choice} label="Status" value=${query.status ?? ""} options=${[["", "any"], ...STATUS]}
				onChange=${(status) => setQuery({ status })} />
			<label><input type="checkbox" checked=${Boolean(query.live)}
				onChange=${(e) => setQuery({ live: e.target.checked ? "1" : undefined })} />Only open</label>
			<label><input type="checkbox" checked=${Boolean(query.internal)}
				onChange=${(e) => setQuery({ internal: e.target.checked ? "1" : undefined })} />Internal</label>
			${query.session && html`<button class="small"
				onClick=${() => setQuery({ session: undefined })}>of session …${plain(query.session.slice(-6))} ✕</button>`}</div>
		<${ErrorBox} error=${error} retry=${reload} />
		${loading ? html`<${Loading} />` : html`<${Table} label="Tasks" columns=${COLUMNS} rows=${shown}
			rowKey=${(t) => t.taskId} onEnd=${more} onView=${onView} onOpen=${(t) => (location.hash = `#/tasks/${t.taskId}`)}
			empty="No task. Create one with: bailiff task create OBJECTIVE -- CMD" />`}<//>`;
}

// Everything that is connected with the task by dependencies or parents, breadth first.
async function loadGraph(root) {
	const tasks = new Map();
	const edges = new Map();
	const queue = [root];
	const seen = new Set([root]);
	while (queue.length && tasks.size < GRAPH_MAX) {
		const batch = queue.splice(0, 8);
		for (const task of await Promise.all(batch.map((taskId) => call("get_task", { taskId }).catch(() => null)))) {
			if (!task)
				continue;
			tasks.set(task.taskId, task);
			for (const r of task.relationships ?? []) {
				if (!String(r.targetId).startsWith("task_"))
					continue;
				const edge = { blocked_by: [r.targetId, task.taskId, "blocks"],
					blocks: [task.taskId, r.targetId, "blocks"], parent: [r.targetId, task.taskId, "child"],
					child: [task.taskId, r.targetId, "child"] }[r.kind];
				if (!edge)
					continue;
				edges.set(edge.join(), { from: edge[0], to: edge[1], kind: edge[2], status: r.status });
				if (!seen.has(r.targetId)) {
					seen.add(r.targetId);
					queue.push(r.targetId);
				}
			}
		}
	}
	return { nodes: [...tasks.values()].map((t) => ({ id: t.taskId, label: nameOf(t), status: t.status })),
		edges: [...edges.values()].filter((e) => tasks.has(e.from) && tasks.has(e.to)), cut: queue.length };
}

const attemptColumns = (setQuery) => [
	{ key: "n", label: "#", width: "36px", align: "right", render: (a) => html`<${Act}
		onClick=${() => setQuery({ attempt: a.attemptId })}>${a.attemptCount}<//>` },
	{ key: "status", label: "Status", width: "110px", render: (a) => html`<${Status} status=${a.status} />` },
	{ key: "reason", label: "Started because", width: "140px", from: 560,
		render: (a) => plain(String(a.reason ?? "").replaceAll("_", " ")) },
	{ key: "error", label: "Error", width: "minmax(120px, 1fr)", render: (a) => html`<span class="bad">
		<${Text} text=${a.lastError?.message ?? ""} /></span>` },
	{ key: "worker", label: "Worker", width: "120px", from: 400, render: (a) => html`<${Id}
		id=${a.processId ?? a.worker?.processId ?? a.turnId} />` },
	{ key: "started", label: "Started", width: "90px", from: 700, render: (a) => html`<${Time} at=${a.startedAt} />` },
	{ key: "duration", label: "Duration", width: "90px", from: 480, align: "right", render: (a) => html`<${Duration}
		since=${a.startedAt} until=${a.endedAt} />` },
];

// method, label, states in which it makes sense, question if it asks first.
const ACTIONS = [
	["start_task", "Start", (s) => s === "accepted"],
	["pause_task", "Pause", (s) => ["running", "preparing", "queued"].includes(s)],
	["resume_task", "Resume", (s) => ["paused", "blocked", "waiting_input", "waiting_resource"].includes(s)],
	["retry_task", "Retry", (s) => ["failed", "timed_out", "lost", "cancelled", "blocked"].includes(s)],
	["complete_task", "Complete", (s) => ["running", "waiting_input"].includes(s)],
	["cancel_task", "Cancel task", (s) => !ENDED.includes(s) && s !== "cancelling", "Cancel this task and its children?"],
	["archive_task", "Archive", (s) => ENDED.includes(s) && s !== "archived"],
];

function One({ id, query, setQuery }) {
	const { data: t, error, reload } = useCall("get_task", { taskId: id }, { refreshOn: (e) => e.taskId === id });
	const graph = useLoad(`graph ${id}`, () => loadGraph(id), { refreshOn: (e) => isTask(e) && e.type !== "task.progress" });
	const [run, busy] = useAction();
	const [tab, set] = [query.tab ?? "attempts", (value) => setQuery({ tab: value })];
	if (!t)
		return html`<${Page} title="Task" cli=${["task", "show", id]}>${error ? html`<${ErrorBox} error=${error}
			retry=${reload} />` : html`<${Loading} />`}<//>`;
	const act = (method, label) => run(async () => {
		await call(method, method === "start_task" ? { taskId: id } : method === "complete_task" ? { taskId: id } : { taskId: id,
			reason: "console" });
		reload();
	}, `${label}: done`);
	// A fleet decides about another attempt of its task: the daemon would reject it.
	const isOffered = ([method, , when]) => when(t.status) && !(method === "retry_task" && t.fleet);
	const attempt = (t.attempts ?? []).find((a) => a.attemptId === query.attempt) ?? t.attempts?.[t.attempts.length - 1];
	const subverb = { start_task: "start", pause_task: "pause", resume_task: "resume", retry_task: "retry", complete_task: "complete", cancel_task: "cancel", archive_task: "archive" };
	return html`<${Page} title=${html`<${Text} text=${nameOf(t)} />`}
		cli=${["task", "show", id]} fill actions=${can("agent") && ACTIONS.filter(isOffered).map(([method, label, , question]) => (question
		? html`<${Confirm} label=${label} question=${question} confirm="Cancel the task" onConfirm=${async () => {
			await call(method, { taskId: id, reason: "console" });
			reload();
		}} />`
		: html`<button disabled=${busy} title=${`bailiff task ${subverb[method]} ${id}`}
			onClick=${() => act(method, label)}>${label}</button>`))}>
		<${ErrorBox} error=${error} retry=${reload} />
		<div class="cards pad"><${Card} title=${html`<${Status} status=${t.status} />`}><${Facts} rows=${[
			["Id", html`<${Id} id=${id} full />`], ["Objective", html`<${Text} text=${t.objective} lines />`],
				["Reason", t.statusReason && html`<${Text} text=${t.statusReason} />`],
			["Blocked by", t.blocker && html`<${Id} id=${t.blocker.id} />`],
				["Command", t.command && commandOf(t.command)],
			["Progress", t.progress && html`${percentOf(t) !== undefined ? html`<${Meter} value=${percentOf(t)}
				max=${100} label="Progress" text=${`${percentOf(t)} %`} /> ` : ""}<${Text}
				text=${[t.progress.phase, t.progress.step, t.progress.summary].filter(Boolean).join(" · ")} />`],
			["Retries", t.retryPolicy && plain(`${t.attemptCount ?? 0} of ${t.retryPolicy.maxAttempts ?? 1} attempts${t.retryPolicy.backoffMs ? `, ${t.retryPolicy.backoffMs} ms apart` : ""}`)],
		]} /><//><${Card} title="Context"><${Facts} rows=${[
			["Session", html`<${Id} id=${t.sessionId} />`], ["Thread", t.threadId && html`<${Id} id=${t.threadId} />`],
				["Parent", t.parentTaskId && html`<${Id} id=${t.parentTaskId} />`],
			["Created", html`<${Time} at=${t.createdAt} abs />`], ["Started", t.startedAt
				&& html`<${Time} at=${t.startedAt} abs />`], ["Ended", t.endedAt
				&& html`<${Time} at=${t.endedAt} abs />`],
			["Fleet", t.fleet && html`<a href=${`#/fleet/${encodeURIComponent(t.fleet.taskId)}`}><${Text} text=${t.fleet.taskId} /></a>`],
				["Try again", t.fleet && ENDED.includes(t.status) && html`<${Cli} argv=${["fleet", "retry", t.fleet.taskId]} />`],
			["Jobs", t.jobIds?.length > 0 && t.jobIds.map((j) => html`<${Id} id=${j} /> `)],
				["Asks", t.openActions?.length > 0 && t.openActions.map((a) => html`<${Id} id=${a.actionId ?? a} /> `)],
			["Acceptance", t.acceptance?.length > 0 && html`<ul class="plain">${t.acceptance.map((a) => html`<li>
				<${Status} status=${a.status === "met" ? "completed" : a.status} label=${a.status} /> <${Text}
				text=${a.text ?? a.id} /></li>`)}</ul>`],
			["Events", html`<a href=${`#/events?task=${encodeURIComponent(id)}`}>all</a>`],
		]} /><//></div>
		<${Tabs} label="Task" value=${tab} onChange=${set} tabs=${[["attempts", "Attempts", t.attempts?.length ?? 0],
			["graph", "Dependencies", graph.data?.nodes.length], ["raw", "Record"]]} />
		${tab === "attempts" && html`<div class="panes"><${Table} label="Attempts" columns=${attemptColumns(setQuery)}
			rows=${t.attempts ?? []} rowKey=${(a) => a.attemptId} onOpen=${(a) => setQuery({ attempt: a.attemptId })}
			rowClass=${(a) => (a === attempt ? "current" : "")} empty="Not started yet." />
			${attempt && html`<div class="pane"><h2>Output of attempt ${attempt.attemptCount}</h2>
				${(attempt.outputRefs ?? []).filter((o) => o.bytes).map((o) => html`<h3>
				${plain(o.stream ?? "output")}</h3><${Output} auto key=${o.outputRef} outputRef=${o.outputRef}
				label=${`${o.stream} of attempt ${attempt.attemptCount}`} />`)}
				${!(attempt.outputRefs ?? []).some((o) => o.bytes)
					&& html`<p class="faint">No output was recorded.</p>`}</div>`}</div>`}
		${tab === "graph" && html`${graph.error && html`<${ErrorBox} error=${graph.error}
			retry=${graph.reload} />`}${graph.data
			? html`<${Graph} label="What this task depends on and what depends on it" nodes=${graph.data.nodes}
			edges=${graph.data.edges} current=${id} hrefFor=${(n) => `#/tasks/${encodeURIComponent(n.id)}?tab=graph`} />
			<p class="faint legend">
				<span class="line solid"></span> must complete before <span class="line dashed"></span> part of${graph.data.cut ? ` · only the first ${GRAPH_MAX} tasks are shown` : ""}</p>`
				: html`<${Loading} />`}`}
		${tab === "raw" && html`<${Json} value=${t} label="The task's record" />`}<//>`;
}

export default function View({ path, query, setQuery }) {
	return path[0] ? html`<${One} id=${path[0]} query=${query} setQuery=${setQuery} />` : html`<${List} query=${query}
		setQuery=${setQuery} />`;
}
