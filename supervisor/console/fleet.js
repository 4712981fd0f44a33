// The fleet that this daemon is a node of: its nodes and tasks, and one task. What the daemon has is a copy that its bailiff-fleet reads from the
// server while this page is open. Commands, prompts and outputs of others are not in it: their submitters read them with their keys.

import { call, can, useCall } from "./api.js";
import { Choice, useAction } from "./lists.js";
import { Bytes, Card, Cli, Confirm, Empty, ErrorBox, Facts, Id, Loading, Meter, Page, Status, Table, Text, Time, Duration,
	formatDuration, formatNumber, html, plain, useMemo } from "./parts.js";

const STATES = ["queued", "running", "completed", "failed", "cancelled", "lost"];
const REFRESH_MS = 2000;
const OLD_MS = 15000;

const labelsOf = (node) => Object.entries(node.labels ?? {}).map(([name, value]) => `${name}=${value}`).join(" ");
const submitterOf = (t) => t.submitter ?? t.submitterKey ?? "not signed";
const isOpen = (t) => t.state === "queued" || t.state === "running";

const NODE_COLUMNS = [
	{ key: "node", label: "Node", width: "minmax(110px, 1fr)", render: (n) => html`<${Text} text=${n.node} />` },
	{ key: "state", label: "State", width: "110px", render: (n) => html`<${Status} status=${n.draining ? "paused" : "ok"} label=${n.draining ? "draining" : "ready"} />` },
	{ key: "running", label: "Tasks", width: "150px", render: (n) => html`<${Meter} value=${n.running} max=${n.maxTasks} label="Tasks" text=${`${n.running} of ${n.maxTasks}`} />` },
	{ key: "memory", label: "Memory free", width: "150px", from: 620, align: "right", render: (n) => html`<${Bytes} n=${n.free?.memory} /> <span class="faint">of <${Bytes} n=${n.memory} /></span>` },
	{ key: "cpus", label: "CPUs", width: "60px", from: 620, align: "right", render: (n) => html`<span class="num">${formatNumber(n.cpus)}</span>` },
	{ key: "arch", label: "Machine", width: "90px", from: 800, render: (n) => html`<${Text} text=${n.arch} />` },
	{ key: "labels", label: "Labels", width: "minmax(120px, 2fr)", from: 480, render: (n) => html`<${Text} text=${labelsOf(n)} />` },
	{ key: "version", label: "Version", width: "90px", from: 1000, render: (n) => html`<${Text} text=${n.version} />` },
];

const TASK_COLUMNS = [
	{ key: "id", label: "Task", width: "minmax(140px, 2fr)", render: (t) => html`<a href=${`#/fleet/${encodeURIComponent(t.taskId)}`}><${Text} text=${t.taskId} /></a>` },
	{ key: "state", label: "State", width: "120px", render: (t) => html`<${Status} status=${t.cancelRequested ? "cancelling" : t.state} />` },
	{ key: "node", label: "Node", width: "minmax(90px, 1fr)", render: (t) => html`<${Text} text=${t.node ?? ""} />` },
	{ key: "submitter", label: "Submitter", width: "minmax(100px, 1fr)", from: 620, render: (t) => html`<${Text} text=${submitterOf(t)} />` },
	{ key: "attempt", label: "Attempts", width: "70px", from: 560, align: "right", render: (t) => html`<span class="num">${formatNumber(t.attempt)}</span>` },
	{ key: "exit", label: "Exit", width: "60px", from: 800, align: "right", render: (t) => html`<span class="num">${t.exitCode ?? ""}</span>` },
	{ key: "reason", label: "Reason", width: "minmax(120px, 2fr)", from: 1000, render: (t) => html`<${Text} text=${t.reason ?? ""} />` },
	{ key: "submitted", label: "Submitted", width: "90px", from: 480, render: (t) => html`<${Time} at=${t.submittedAt} />` },
	{ key: "duration", label: "Duration", width: "90px", from: 700, align: "right", render: (t) => html`<${TaskDuration} task=${t} />` },
];

const ATTEMPT_COLUMNS = [
	{ key: "attempt", label: "#", width: "50px", align: "right", render: (a) => html`<span class="num">${a.attempt}</span>` },
	{ key: "state", label: "State", width: "120px", render: (a) => html`<${Status} status=${a.state} />` },
	{ key: "node", label: "Node", width: "minmax(100px, 1fr)", render: (a) => html`<${Text} text=${a.node ?? ""} />` },
	{ key: "token", label: "Token", width: "90px", from: 480, align: "right", render: (a) => html`<span class="num">${formatNumber(a.token)}</span>` },
	{ key: "exit", label: "Exit", width: "60px", align: "right", render: (a) => html`<span class="num">${a.exitCode ?? ""}</span>` },
	{ key: "reason", label: "Reason", width: "minmax(160px, 3fr)", from: 560, render: (a) => html`<${Text} text=${a.reason ?? ""} />` },
];

function TaskDuration({ task: t }) {
	if (t.state === "running" && t.startedAt)
		return html`<${Duration} since=${t.startedAt} />`;
	return t.durationMs === undefined ? "" : html`<${Duration} ms=${t.durationMs} />`;
}

function useFleet() {
	return useCall("get_fleet", {}, { every: REFRESH_MS });
}

// How current the lists are: only said if they are not.
function Age({ fleet }) {
	if (!fleet.connected)
		return html`<div class="banner" role="alert">This node is not connected to the fleet's server${fleet.problem ? `: ${plain(fleet.problem)}` : ""}.
			${fleet.nodes ? ` What you see was read ${formatDuration(fleet.ageMs)} ago.` : ""}</div>`;
	const age = fleet.ageMs > OLD_MS ? `Read ${formatDuration(fleet.ageMs)} ago.` : "";
	if (fleet.problem)
		return html`<div class="banner" role="status">${age} ${plain(fleet.problem)}.</div>`;
	return age && html`<p class="faint" role="status">${age}</p>`;
}

function List({ query, setQuery }) {
	const { data: fleet, error, reload } = useFleet();
	const text = (query.filter ?? "").toLowerCase();
	const tasks = useMemo(() => (fleet?.tasks ?? []).filter((t) => (!query.state || t.state === query.state) && (!query.open || isOpen(t)) && (!query.node || t.node === query.node)
		&& (!text || `${t.taskId} ${t.job ?? ""} ${t.node ?? ""} ${submitterOf(t)}`.toLowerCase().includes(text))), [fleet, text, query.state, query.open, query.node]);
	const nodes = useMemo(() => [...(fleet?.nodes ?? [])].sort((a, b) => (a.node < b.node ? -1 : 1)), [fleet]);
	if (!fleet)
		return html`<${Page} title="Fleet" cli=${["fleet", "nodes"]}>${error ? html`<${ErrorBox} error=${error} retry=${reload} />` : html`<${Loading} />`}<//>`;
	const left = (fleet.taskCount ?? 0) - (fleet.tasks?.length ?? 0);
	return html`<${Page} title="Fleet" count=${fleet.nodes && `${formatNumber(nodes.length)} nodes, ${formatNumber(fleet.taskCount)} tasks`} cli=${["fleet", "list", ...(query.open ? [] : ["-a"])]}>
		<${ErrorBox} error=${error} retry=${reload} /><${Age} fleet=${fleet} />
		${!fleet.nodes && fleet.connected && !fleet.problem && html`<${Loading} />`}
		${fleet.nodes && html`<h2>Nodes</h2><${Table} label="Nodes" columns=${NODE_COLUMNS} rows=${nodes} rowKey=${(n) => n.node} rowClass=${(n) => (n.node === fleet.node ? "current" : "")}
			onOpen=${(n) => setQuery({ node: query.node === n.node ? undefined : n.node })} empty="No node has reported in the last 15 seconds." />
		<h2>Tasks</h2><div class="toolbar"><label>Filter<input type="search" value=${query.filter ?? ""} onInput=${(e) => setQuery({ filter: e.target.value })} placeholder="task, job, node or submitter" /></label>
			<${Choice} label="State" value=${query.state ?? ""} options=${[["", "any"], ...STATES]} onChange=${(state) => setQuery({ state })} />
			<label><input type="checkbox" checked=${Boolean(query.open)} onChange=${(e) => setQuery({ open: e.target.checked ? "1" : undefined })} />Only open</label>
			${query.node && html`<button class="small" onClick=${() => setQuery({ node: undefined })}>on ${plain(query.node)} ✕</button>`}</div>
		<${Table} label="Tasks" columns=${TASK_COLUMNS} rows=${tasks} rowKey=${(t) => t.taskId} onOpen=${(t) => (location.hash = `#/fleet/${encodeURIComponent(t.taskId)}`)}
			empty="No task. Submit one with: bailiff fleet submit -- CMD" />
		${left > 0 && html`<p class="faint">${formatNumber(left)} more tasks, all of them older, are on the server.</p>`}`}<//>`;
}

// What a person with the submitter's key can do, from any machine; and, if the task is or was here, what the daemon knows about it.
function Actions({ task: t, local }) {
	const [run, busy] = useAction();
	const cancel = () => run(() => call("cancel_task", { taskId: t.localTaskId, reason: "console" }), "Cancelling");
	return html`<${Card} title="Output and changes"><${Facts} rows=${[
		["On this node", local && html`task <${Id} id=${local.taskId} />${local.worker?.processId && html`, process <${Id} id=${local.worker.processId} />`}`],
	]} />
		${local && t.state === "running" && html`<p><${Confirm} label="Cancel" question="End this task on this node?" confirm="Cancel it" onConfirm=${cancel} disabled=${busy || !can("operator")} /></p>`}
		<p class="faint">For its submitter and operators of the fleet, with their keys, from any machine:</p>
		<${Facts} rows=${[
			["Output", html`<${Cli} argv=${["fleet", "logs", ...(isOpen(t) ? ["-f"] : []), t.taskId]} />`],
			[isOpen(t) ? "Cancel" : "Try again", html`<${Cli} argv=${["fleet", isOpen(t) ? "cancel" : "retry", t.taskId]} />`],
		]} /><//>`;
}

function One({ id }) {
	const { data: fleet, error, reload } = useFleet();
	const t = fleet?.tasks?.find((x) => x.taskId === id);
	const local = useCall("get_task", { taskId: t?.localTaskId }, { skip: !t?.localTaskId, refreshOn: (e) => e.taskId === t?.localTaskId });
	if (!fleet?.tasks)
		return html`<${Page} title="Task of the fleet" cli=${["fleet", "show", id]}>${error ? html`<${ErrorBox} error=${error} retry=${reload} />` : html`<${Loading} />`}<//>`;
	if (!t)
		return html`<${Page} title="Task of the fleet" cli=${["fleet", "show", id]}><${Empty}>This task is not among those that the daemon lists. <a href="#/fleet">All</a><//><//>`;
	return html`<${Page} title=${html`Task of the fleet <${Text} text=${id} />`} cli=${["fleet", "show", id]}>
		<${ErrorBox} error=${error} retry=${reload} /><${Age} fleet=${fleet} />
		<div class="cards"><${Card} title="State"><${Facts} rows=${[
			["State", html`<${Status} status=${t.cancelRequested ? "cancelling" : t.state} />`], ["Reason", t.reason && html`<${Text} text=${t.reason} />`],
			["Node", t.node && html`<${Text} text=${t.node} />`], ["Submitter", html`<${Text} text=${submitterOf(t)} />`], ["Key", t.submitterKey && html`<code><${Text} text=${t.submitterKey} /></code>`],
			["Kind", plain(t.kind)], ["Job", t.job && html`<a href=${`#/fleet?filter=${encodeURIComponent(t.job)}`}><${Text} text=${t.job} /></a>`],
			["Priority", formatNumber(t.priority)], ["Exit status", t.exitCode === undefined ? null : formatNumber(t.exitCode)], ["Fencing token", t.token && formatNumber(t.token)],
			["Submitted", html`<${Time} at=${t.submittedAt} abs />`], ["Claimed", t.startedAt && html`<${Time} at=${t.startedAt} abs />`], ["Duration", html`<${TaskDuration} task=${t} />`],
		]} /><//><${Actions} task=${t} local=${local.data} /></div>
		<h2>Attempts that have ended</h2><${Table} label="Attempts" columns=${ATTEMPT_COLUMNS} rows=${t.attempts ?? []} rowKey=${(a) => `${a.attempt} ${a.token}`} empty="None." /><//>`;
}

export default function View({ path, query, setQuery }) {
	return path[0] ? html`<${One} id=${path[0]} />` : html`<${List} query=${query} setQuery=${setQuery} />`;
}
