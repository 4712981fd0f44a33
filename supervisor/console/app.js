// The frame of the page: login, routes, navigation, keys. A view is a module that is loaded when it is first opened; its whole
// state is in the URL, so that a link shows the same.

import { call, can, login, logout, stream, useCall, useEvents, useStream } from "./api.js";
import { Cli, Dialog, Empty, ErrorBox, Loading, Notices, html, plain, render, useCallback, useEffect, useRef, useState } from "./parts.js";

// Routes: #/NAME[/ID…][?query]. one: the module of a view of one thing, if another shows the list. Without key: not in the navigation.
const ROUTES = [
	{ name: "overview", label: "Overview", key: "o", module: "overview" },
	{ name: "approvals", label: "Approvals", key: "a", module: "approvals" },
	{ name: "processes", label: "Processes", key: "p", module: "processes", one: "process" },
	{ name: "sessions", label: "Sessions", key: "s", module: "sessions" },
	{ name: "threads", module: "thread", parent: "sessions" },
	{ name: "turns", module: "thread", parent: "sessions" },
	{ name: "tasks", label: "Tasks", key: "t", module: "tasks" },
	{ name: "jobs", label: "Jobs", key: "j", module: "jobs" },
	{ name: "fleet", label: "Fleet", key: "f", module: "fleet" },
	{ name: "changes", label: "Changes", key: "c", module: "changes" },
	{ name: "policy", label: "Policy", key: "y", module: "policy" },
	{ name: "history", label: "History", key: "h", module: "history" },
	{ name: "events", label: "Events", key: "e", module: "events" },
];

const KEYS = [
	["g, then a letter", ROUTES.filter((r) => r.key).map((r) => `${r.key} ${r.label}`).join(", ")],
	["j k ↑ ↓", "next and previous row"],
	["Home End PgUp PgDn", "through a list"],
	["x", "select a row"],
	["Enter", "open a row"],
	["/", "filter"],
	["y s w n", "in Approvals: allow once, for the session, always; deny"],
	["Esc", "close a dialog; leave a terminal with Ctrl+Alt+Esc"],
	["?", "this list"],
];

function parseHash() {
	const [path, query] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
	const parts = path.split("/").filter(Boolean).map((part) => {
		try {
			return decodeURIComponent(part);
		} catch {
			return part;
		}
	});
	return { name: parts[0] || "overview", path: parts.slice(1), query: Object.fromEntries(new URLSearchParams(query || "")) };
}

export function hashOf(name, path = [], query = {}) {
	const text = new URLSearchParams(Object.entries(query).filter(([, v]) => v !== undefined && v !== null && v !== "")).toString();
	return `#/${[name, ...path].map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

function useRoute() {
	const [route, set] = useState(parseHash);
	useEffect(() => {
		const change = () => set(parseHash());
		addEventListener("hashchange", change);
		return () => removeEventListener("hashchange", change);
	}, []);
	// Merges into the query; undefined removes. Replaces the history entry unless push is given.
	const setQuery = useCallback((changes, { push } = {}) => {
		const now = parseHash();
		const hash = hashOf(now.name, now.path, { ...now.query, ...changes });
		if (push) {
			location.hash = hash;
		} else if (hash !== location.hash) {
			history.replaceState(null, "", hash);
			set(parseHash());
		}
	}, []);
	return [route, setQuery];
}

const SLOW_MS = 4000;

const modules = new Map();

function useModule(name) {
	const [, again] = useState(0);
	if (!modules.has(name)) {
		const entry = { view: null, error: null };
		modules.set(name, entry);
		entry.done = import(`./${name}.js`).then((m) => (entry.view = m.default), (e) => (entry.error = e));
	}
	const entry = modules.get(name);
	useEffect(() => {
		let live = true;
		// It may have been loaded between this component's first rendering and now.
		entry.done.then(() => live && again((n) => n + 1));
		return () => {
			live = false;
			if (entry.error)
				modules.delete(name);   // the next visit tries again
		};
	}, [name]);
	return entry;
}

function CurrentView({ route, setQuery }) {
	const known = ROUTES.find((r) => r.name === route.name);
	const { view: View, error } = useModule(known ? (route.path.length && known.one) || known.module : "overview");
	if (!known)
		return html`<${Empty}>There is no page “${plain(route.name)}”. <a href="#/overview">Overview</a><//>`;
	if (error)
		return html`<${ErrorBox} error=${{ message: `The page could not be loaded: ${error.message}` }} />`;
	// Another thing of the same kind is another instance, without the state of this one.
	return View ? html`<${View} key=${[route.name, ...route.path].join("/")} name=${route.name} path=${route.path} query=${route.query} setQuery=${setQuery} />` : html`<${Loading} />`;
}

function Login({ error }) {
	return html`<main class="login"><h1>bailiff console</h1>
		<p>${error || "This browser is not signed in, or its session has ended."}</p><p>Run this command; it opens the page again with a code that works once:</p>
		<${Cli} argv=${["console"]} /></main>`;
}

const LINK = {
	connecting: ["wait", "connecting"],
	disconnected: ["bad", "bailiff serve is not reachable"],
	connected: ["good", "live"],
};

function Connection({ state }) {
	const [tone, text] = state.link === "connected" && state.daemon !== "connected" ? ["bad", "daemon is not reachable"] : LINK[state.link] ?? LINK.connecting;
	return html`<div class=${`connection ${tone}`} role="status"><span aria-hidden="true" class="dot"></span>${text}</div>`;
}

// What waits for a person: its number is in the navigation and in the title, and a desktop notification tells of a new one.
function usePending() {
	const { data, reload } = useCall("list_actions", { status: "pending", limit: 1000 }, { refreshOn: (e) => e.type.startsWith("action.") || e.type.startsWith("permission.") });
	useEvents((e) => e.type === "action.required", (e) => {
		if (document.hidden && "Notification" in window && Notification.permission === "granted") {
			const note = new Notification("bailiff: approval needed", { body: plain(e.payload.title ?? e.payload.prompt ?? "").slice(0, 200), tag: e.payload.actionId ?? e.eventId });
			note.onclick = () => {
				focus();
				location.hash = "#/approvals";
			};
		}
	});
	return { count: data ? data.actions.length : 0, reload };
}

const MODIFIERS = ["Shift", "Control", "Alt", "AltGraph", "Meta", "CapsLock"];

function useKeys(openHelp) {
	const prefix = useRef(false);
	useEffect(() => {
		const keys = (e) => {
			if (e.ctrlKey || e.metaKey || e.altKey || MODIFIERS.includes(e.key) || e.target.closest("input, textarea, select, dialog, .xterm"))
				return;
			// However late it comes: after "g" a letter is never the answer to a question.
			if (prefix.current) {
				prefix.current = false;
				const route = ROUTES.find((r) => r.key === e.key);
				if (route) {
					location.hash = `#/${route.name}`;
					e.preventDefault();
				}
				e.stopImmediatePropagation();
			} else if (e.key === "g") {
				prefix.current = true;
			} else if (e.key === "?") {
				openHelp();
			} else if (e.key === "/") {
				const filter = document.querySelector("main input[type=search]");
				filter?.focus();
				if (filter)
					e.preventDefault();
			} else if ((e.key === "j" || e.key === "k") && !e.target.closest(".table")) {
				document.querySelector("main .table")?.focus();
			}
		};
		addEventListener("keydown", keys, true);
		return () => removeEventListener("keydown", keys, true);
	}, []);
}

function Frame() {
	const [route, setQuery] = useRoute();
	const [help, setHelp] = useState(false);
	const state = useStream();
	const pending = usePending();
	const main = useRef();
	useKeys(() => setHelp(true));
	const current = ROUTES.find((r) => r.name === route.name);
	const section = current?.parent ?? route.name;
	const label = ROUTES.find((r) => r.name === section)?.label ?? "bailiff";
	document.title = `${pending.count ? `(${pending.count}) ` : ""}${label} · bailiff`;
	return html`<a class="skip" href="#main" onClick=${(e) => {
		e.preventDefault();
		main.current.focus();
	}}>Skip to content</a>
	<nav aria-label="Views"><div class="brand">bailiff</div><ul>${ROUTES.filter((r) => r.label).map((r) => html`<li><a href=${`#/${r.name}`} aria-current=${r.name === section ? "page" : undefined}>${r.label}
		${r.name === "approvals" && pending.count > 0 && html`<span class="badge" title="waiting for an answer">${pending.count}</span>`}</a></li>`)}</ul>
		<div class="foot"><${Connection} state=${state} /><div class="faint">${state.role} · ${state.version}</div>
		<div class="foot-buttons"><button class="quiet small" onClick=${() => setHelp(true)} title="Keyboard shortcuts">Keys <kbd>?</kbd></button>
		<button class="quiet small" onClick=${logout}>Sign out</button></div></div></nav>
	<main id="main" tabindex="-1" ref=${main}>
		${state.link === "disconnected" && html`<div class="banner" role="alert">bailiff serve is not reachable; the page reconnects automatically. What you see may be out of date.</div>`}
		${state.link === "connected" && state.daemon !== "connected" && html`<div class="banner" role="alert">The daemon is not reachable; the page continues when it is back. What you see may be out of date.</div>`}
		<${CurrentView} route=${route} setQuery=${setQuery} /></main>
	<${Notices} />
	${help && html`<${Dialog} title="Keys" onClose=${() => setHelp(false)}><dl class="keys">${KEYS.map(([key, what]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}</dl>
		<div class="dialog-actions"><button onClick=${() => setHelp(false)} autofocus>Close</button></div><//>`}`;
}

// The event stream has not begun yet: after a few seconds the page says why.
function Connecting({ problem }) {
	const [slow, set] = useState(false);
	useEffect(() => {
		const timer = setTimeout(() => set(true), SLOW_MS);
		return () => clearTimeout(timer);
	}, []);
	return problem || slow ? html`<main class="login"><h1>bailiff console</h1>
		<p role="alert">${problem ? `The event stream is not available: ${plain(problem)}.` : "The server has not answered yet."} The page tries again automatically.</p>
		<p class="faint">Is the daemon running? <code>bailiff daemon status</code> shows it. A browser opens six connections to a server: downloads that are in progress use them, too.</p></main>` : html`<${Loading} />`;
}

function App({ error }) {
	const { link, version, problem } = useStream();
	if (link === "login" || error)
		return html`<${Login} error=${error} />`;
	// Lists are loaded after the stream has begun: no change between the two is missed.
	return version ? html`<${Frame} />` : html`<${Connecting} problem=${problem} />`;
}

const codeOf = () => /^#code=([^&]+)/.exec(location.hash)?.[1];

async function start() {
	const root = document.getElementById("app");
	const code = codeOf();
	let error = "";
	if (code) {
		history.replaceState(null, "", "#/overview");
		try {
			await login(decodeURIComponent(code));
		} catch (e) {
			error = e.status === 403 ? "The code has been used already or is older than a minute." : e.message;
		}
	}
	if (!error)
		stream.start();
	render(html`<${App} error=${error} />`, root);
}

// The address with a new code was opened in this tab, or another tab signed in.
addEventListener("hashchange", () => codeOf() && location.reload());
addEventListener("storage", () => stream.state.link === "login" && location.reload());
start();

export { call, can };
