// Changes that wait for a decision: copy-on-write runs and sandboxes. Diffs per file, apply, discard; checkpoints of sandboxes.

import { call, can, useCall, useEvents } from "./api.js";
import { Act, useAction, usePages } from "./lists.js";
import { Bytes, Card, Command, Confirm, Diff, Empty, ErrorBox, Facts, Id, Loading, Page, Status, Table, Text, Time,
	formatNumber, html, plain, useEffect, useMemo, useRef, useState } from "./parts.js";

const countText = (c) => (c ? ["added", "modified", "deleted"].filter((k) => c[k]).map((k) => `${c[k]} ${k}`).join(", ") || "none" : "");

const ENDED = /^process\.(completed|failed|terminated)$/;

const isSummary = (e) => e.type === "artifact.changed" && e.payload?.change === "summary";

// What a run changed, and whether something is left to decide: the latest summaries in its events.
function Summary({ run }) {
	const { data } = useCall("list_events", { processId: run.processId, types: ["artifact.changed"], order: "desc", limit: 20 },
		{ refreshOn: (e) => isSummary(e) && e.processId === run.processId });
	const summaries = (data?.events ?? []).filter(isSummary);
	const made = summaries.find((e) => e.payload.source === "cow") ?? summaries[summaries.length - 1];
	const decided = summaries[0]?.payload.kept === false;
	return html`${!run.endedAt ? html`<${Status} status="running" />` : summaries.length > 0
		&& html`<${Status} status=${decided ? "completed" : "pending"} label=${decided ? "decided" : "to review"} />`} <span class="faint">
		${plain(countText(made?.payload.counts))}</span>`;
}

const RUN_COLUMNS = [
	{ key: "command", label: "Command", width: "minmax(140px, 2fr)", render: (r) => html`<a class="cover" tabindex="-1" href=${`#/changes/${r.processId}`}>
		<${Command} argv=${r.commandLine ? undefined : r.command} text=${r.commandLine} /></a>` },
	{ key: "state", label: "Changes", width: "minmax(180px, 260px)", render: (r) => html`<${Summary} run=${r} />` },
	{ key: "session", label: "Session", width: "110px", from: 700, render: (r) => html`<${Id} id=${r.sessionId} />` },
	{ key: "at", label: "Ended", width: "90px", from: 560, render: (r) => html`<${Time} at=${r.endedAt} />` },
	{ key: "id", label: "Run", width: "110px", from: 700, render: (r) => html`<${Id} id=${r.processId} />` },
];

const SANDBOX_COLUMNS = [
	{ key: "id", label: "Sandbox", width: "120px", render: (s) => html`<a class="id"
		href=${`#/changes/${s.sandboxId}`}>sbx…${plain(s.sandboxId.slice(-6))}</a>` },
	{ key: "state", label: "State", width: "110px", render: (s) => html`<${Status}
		status=${s.status === "open" ? "active" : s.status} label=${s.status} />` },
	{ key: "name", label: "Name", width: "minmax(140px, 1fr)", render: (s) => html`<${Text} text=${s.name ?? ""} />` },
	{ key: "running", label: "Running", width: "70px", align: "right", render: (s) => html`<span class="num">
		${s.processes?.length ?? 0}</span>` },
	{ key: "session", label: "Session", width: "110px", from: 560, render: (s) => html`<${Id} id=${s.sessionId} />` },
	{ key: "used", label: "Last used", width: "90px", render: (s) => html`<${Time}
		at=${s.lastUsedAt ?? s.createdAt} />` },
];

function List({ query, setQuery }) {
	const changes = query.all ? "any" : "held";
	const runs = usePages("list_processes", { changes, helpers: false }, "processes", (p) => p.processId,
		{ refreshOn: (e) => isSummary(e) || (query.all && e.type === "process.started"), least: query.all ? 50 : 1 });
	const sandboxes = usePages("list_sandboxes", { closed: true }, "sandboxes", (s) => s.sandboxId, { refreshOn: (e) => e.type.startsWith("sandbox.") && e.type !== "sandbox.applied" && e.type !== "sandbox.violation" });
	const cow = useMemo(() => sandboxes.rows.filter((s) => s.cow), [sandboxes.rows]);
	return html`<${Page} title="Changes" count=${`${formatNumber(runs.rows.length)}${runs.hasMore ? "+" : ""}`}
		cli=${["call", "list_processes", JSON.stringify({ changes })]} fill>
		<div class="toolbar"><label><input type="checkbox" checked=${Boolean(query.all)}
			onChange=${(e) => setQuery({ all: e.target.checked ? "1" : undefined })} />Also decided ones</label></div>
		<${ErrorBox} error=${runs.error ?? sandboxes.error} retry=${runs.reload} />
		<h2 class="pad-title">Copy-on-write runs</h2>
		${!runs.loading ? html`<${Table} label="Copy-on-write runs" columns=${RUN_COLUMNS} rows=${runs.rows}
			rowKey=${(r) => r.processId} onEnd=${runs.more} onView=${runs.onView} onOpen=${(r) => (location.hash = `#/changes/${r.processId}`)}
			empty="Nothing to review. Run a command with: bailiff run --cow -- CMD" />` : html`<${Loading} />`}
		<h2 class="pad-title">Copy-on-write sandboxes</h2>
		<${Table} label="Copy-on-write sandboxes" columns=${SANDBOX_COLUMNS} rows=${cow} rowKey=${(s) => s.sandboxId}
			onEnd=${sandboxes.more} onView=${sandboxes.onView} onOpen=${(s) => (location.hash = `#/changes/${s.sandboxId}`)}
			empty="None. Create one with: bailiff sandbox create --cow" /><//>`;
}

const KIND = { added: ["good", "A"], modified: ["live", "M"], deleted: ["bad", "D"] };

// The diff of one file; beyond the first ones it is asked for when it is shown.
function FileDiff({ target, change }) {
	const { data, error } = useCall("list_changes", { ...target, paths: [change.path], diffs: true },
		{ skip: change.diff !== undefined });
	const diff = change.diff ?? data?.changes.find((c) => c.path === change.path)?.diff;
	if (error)
		return html`<${ErrorBox} error=${error} />`;
	if (diff === undefined)
		return data ? html`<${Empty}>There is no diff of this file.<//>` : html`<${Loading} />`;
	return diff === "" ? html`<${Empty}>Only the mode or the owner changed.<//>` : html`<${Diff} text=${diff} />`;
}

const commonFolder = (paths) => {
	if (!paths.length)
		return "";
	let folder = paths[0].slice(0, paths[0].lastIndexOf("/") + 1);
	for (const path of paths)
		while (!path.startsWith(folder))
			folder = folder.slice(0, folder.lastIndexOf("/", folder.length - 2) + 1);
	return folder;
};

function Checkpoints({ sandbox, reload }) {
	const [name, setName] = useState("");
	const [run, busy] = useAction();
	const id = sandbox.sandboxId;
	const open = sandbox.status === "open";
	const act = (method, params, done) => run(async () => {
		const result = await call(method, { sandboxId: id, ...params });
		reload();
		return result;
	}, done);
	return html`<${Card} title="Checkpoints" actions=${open && can("agent") && html`<label>
		<span class="hidden-label">Name of the checkpoint</span><input type="text" value=${name}
		placeholder="name (optional)" onInput=${(e) => setName(e.target.value)} /></label>
			<button class="small" disabled=${busy}
				onClick=${async () => (await act("checkpoint_sandbox", name ? { checkpoint: name } : {}, "Checkpoint created")) && setName("")}>Create checkpoint</button>`}>
		${(sandbox.checkpoints ?? []).length === 0 ? html`<${Empty}>No checkpoint.<//>` : html`<ul class="plain rows">
			${sandbox.checkpoints.map((c) => html`<li><code>
			<${Text} text=${c.name ?? c.checkpointId} /></code> <${Time} at=${c.createdAt} /><span class="grow"></span>
			${open && can("agent") && html`<${Confirm} label="Restore" kind="danger small"
				question="Return the sandbox to this checkpoint?" confirm="Restore"
				detail=${html`<p>Later changes in it are lost, and so are the contents of its private directories such as /tmp.</p>`}
				onConfirm=${async () => {
					await call("restore_sandbox", { sandboxId: id, checkpoint: c.checkpointId });
					reload();
				}} />`}
			${can("agent") && html`<button class="small" disabled=${busy}
				onClick=${() => act("fork_sandbox", { checkpoint: c.checkpointId }, (r) => `New sandbox ${r?.sandboxId}`)}>Fork</button>`}</li>`)}</ul>`}<//>`;
}

function One({ id, query, setQuery }) {
	const isSandbox = !id.startsWith("proc_");
	const target = isSandbox ? { sandboxId: id } : { processId: id };
	const started = useRef(new Set());      // only the first event of a command names its sandbox
	useEvents((e) => e.type === "process.started" && e.sandboxId === id, (e) => started.current.add(e.processId));
	const sandbox = useCall("get_sandbox", { sandboxId: id }, { skip: !isSandbox,
		refreshOn: (e) => (e.sandboxId === id && /^(sandbox\.|process\.started)/.test(e.type)) || (isMember(e) && ENDED.test(e.type)) });
	const isMember = (e) => started.current.has(e.processId) || Boolean(sandbox.data?.processes?.includes(e.processId));
	const mine = (e) => e.processId === id || e.sandboxId === id || isMember(e) || (e.type === "artifact.changed" && isSandbox);
	const changes = useCall("list_changes", { ...target, diffs: true },
		{ refreshOn: (e) => mine(e) && (/^(artifact\.changed|sandbox\.)/.test(e.type) || ENDED.test(e.type)) });
	const process = useCall("get_process", { processId: id }, { skip: isSandbox });
	const [picked, setPicked] = useState(new Set());
	const [outcome, setOutcome] = useState(null);
	const rows = useMemo(() => changes.data?.changes ?? [], [changes.data]);
	const folder = useMemo(() => commonFolder(rows.map((c) => c.path)), [rows]);
	const current = rows.find((c) => c.path === query.file) ?? rows[0];
	useEffect(() => setPicked((old) => new Set([...old].filter((path) => rows.some((c) => c.path === path)))), [rows]);
	const open = isSandbox && sandbox.data?.status === "open";
	const paths = picked.size && picked.size < rows.length ? { paths: [...picked] } : {};
	const what = paths.paths ? `${picked.size} of ${rows.length} files` : `all ${formatNumber(changes.data?.total ?? rows.length)} files`;
	const decide = (method) => async () => {
		const result = await call(method, { ...target, ...(method === "undo_changes" ? {} : paths) });
		setOutcome({ method, ...result });
		setPicked(new Set());
		await changes.reload();
	};
	const columns = [
		{ key: "change", label: html`<span class="hidden-label">Change</span>`, width: "22px",
			render: (c) => html`<b class=${`mono ${KIND[c.change]?.[0] ?? ""}`} title=${plain(c.change)}>
			${KIND[c.change]?.[1] ?? plain(c.change)}</b>` },
		{ key: "path", label: "File", width: "minmax(120px, 1fr)", render: (c) => html`<${Act} title=${plain(c.path)}
			onClick=${() => setQuery({ file: c.path })}><code>
			<${Text} text=${c.path.slice(folder.length) || c.path} /></code><//>` },
		{ key: "bytes", label: "Size", width: "70px", align: "right", render: (c) => html`<${Bytes} n=${c.bytes} />` },
	];
	const cli = ["diff", id, ...(query.file ? [query.file] : [])];
	return html`<${Page} title=${isSandbox ? html`Changes of <${Text}
		text=${sandbox.data?.name ?? "a sandbox"} />` : "Changes of a run"}
		count=${changes.data ? formatNumber(changes.data.total) : undefined} cli=${cli} fill
		actions=${can("operator") && !open && html`${changes.data?.undoable > 0 && html`<${Confirm} kind="" label="Undo the last apply"
				question="Restore what the last apply replaced on the host?" confirm="Undo" onConfirm=${decide("undo_changes")}
				detail=${html`<p>If a file changed since then, that is a conflict and nothing is restored.</p>
					<p class="faint mono">bailiff undo ${plain(id)}</p>`} />`}${rows.length > 0 && html`
			<${Confirm} kind="primary" label=${picked.size ? `Apply ${picked.size}` : "Apply all"}
				question=${`Apply ${what} to the host?`} confirm="Apply" onConfirm=${decide("apply_changes")}
				detail=${html`<p>Files that changed on the host since the run began are conflicts and are not overwritten.</p>
					<p class="faint mono">bailiff apply ${plain(id)}${(paths.paths ?? []).slice(0, 3).map((p) => ` ${plain(p)}`)}${picked.size > 3 ? " …" : ""}</p>`} />
			<${Confirm} label=${picked.size ? `Discard ${picked.size}` : "Discard all"} question=${`Discard ${what}?`}
				confirm="Discard" onConfirm=${decide("discard_changes")}
				detail=${html`<p>The host's files stay as they are. This cannot be undone.</p>`} />`}`}>
		<${ErrorBox} error=${changes.error ?? sandbox.error} retry=${changes.reload} />
		${outcome && html`<div class=${`outcome ${outcome.conflicts?.length ? "bad" : "good"}`} role="status">
			${outcome.applied?.length ? `${formatNumber(outcome.applied.length)} applied. ` : ""}${outcome.discarded?.length ? `${formatNumber(outcome.discarded.length)} discarded. ` : ""}${outcome.undone?.length ? `${formatNumber(outcome.undone.length)} restored. ` : ""}${outcome.interrupted ? "The apply had been interrupted. " : ""}${outcome.undoLost ? `This apply cannot be undone: ${plain(outcome.undoLost)}. ` : ""}
			${outcome.conflicts?.length
				? html`${formatNumber(outcome.conflicts.length)} conflicts, left unchanged on the host:${outcome.conflicts.slice(0, 10).map((c) => html` <code>
				<${Text} text=${c.path ?? c} /></code>`)}` : ""}</div>`}
		${process.data && html`<p class="line"><${Status} status=${process.data.status} /> <${Command}
			argv=${process.data.commandLine ? undefined : process.data.command}
			text=${process.data.commandLine} /> <${Id} id=${id} /> in <code>
			<${Text} text=${process.data.cwd} /></code></p>`}
		${sandbox.data && html`<div class="cards pad"><${Card} title=${html`<${Status}
			status=${open ? "active" : sandbox.data.status} label=${sandbox.data.status} />`}
			actions=${open && can("agent") && html`<${Confirm} kind="small" label="Close sandbox"
			question="Close this sandbox?" confirm="Close"
			detail=${html`<p>Its commands are ended. Then its changes can be applied or discarded.</p>`}
				onConfirm=${async () => {
				await call("close_sandbox", { sandboxId: id });
				sandbox.reload();
				changes.reload();
			}} />`}><${Facts} rows=${[["Id", html`<${Id} id=${id} full />`], ["Directory", html`<code>
				<${Text} text=${sandbox.data.sandboxProfile?.cwd ?? sandbox.data.request?.cwd} /></code>`],
				["Profile", plain(sandbox.data.profile)], ["Session", html`<${Id} id=${sandbox.data.sessionId} />`],
				["Running", (sandbox.data.processes ?? []).length > 0 && sandbox.data.processes.map((p) => html`<${Id}
					id=${p} /> `)],
					["", open && "Close the sandbox to apply or discard its changes."]]} /><//>
			<${Checkpoints} sandbox=${sandbox.data} reload=${() => {
				sandbox.reload();
				changes.reload();
			}} /></div>`}
		${changes.data && rows.length === 0 && html`<${Empty}>No changes are left to decide.<//>`}
		${!changes.data && !changes.error && html`<${Loading} />`}
		${rows.length > 0 && html`<div class="review"><div class="files"><p class="faint path">${folder
			&& html`in <code><${Text} text=${folder} /></code>`}</p><${Table} label="Changed files" columns=${columns}
			rows=${rows} rowKey=${(c) => c.path} selected=${picked} onSelect=${setPicked}
			onOpen=${(c) => setQuery({ file: c.path })}
				rowClass=${(c) => (c === current ? "current" : "")} /><p class="faint">
					${plain(`Enter shows a file, x selects it${changes.data.total > rows.length ? `; the first ${rows.length} of ${changes.data.total}` : ""}`)}</p></div>
			<div class="file" aria-live="polite">${current && html`<h2><b class=${KIND[current.change]?.[0]}>
				${plain(current.change)}</b> <code><${Text} text=${current.path} /></code>${current.type !== "file"
				? html` <span class="faint">${plain(current.type)}</span>` : ""}</h2><${FileDiff} key=${current.path}
				target=${target} change=${current} />`}</div></div>`}<//>`;
}

export default function View({ path, query, setQuery }) {
	return path[0] ? html`<${One} id=${path[0]} query=${query} setQuery=${setQuery} />` : html`<${List} query=${query}
		setQuery=${setQuery} />`;
}
