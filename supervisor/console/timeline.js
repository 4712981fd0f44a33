// A zoomable timeline in SVG: turns, requests to models, tool calls and processes, each in lanes of its own.
// spans: [{id, row, label, status, start, end (ms, or undefined while it runs), href}]. The visible range is in the URL.

import { Duration, Status, Text, formatDuration, formatTime, html, plain, useEffect, useLayoutEffect, useMemo, useNow,
	useRef, useState } from "./parts.js";

const ROWS = [["turn", "Turns"], ["request", "Requests"], ["tool", "Tools"], ["process", "Processes"]];
const LANE = 16, GAP = 3, LEFT = 76, TOP = 20, LANES = 6, PAD = 8;
const TONE = { completed: "good", failed: "bad", lost: "bad", timed_out: "bad", cancelled: "off", interrupted: "off",
	terminated: "off", waiting_permission: "wait" };
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 6048e5];

// Overlapping spans of a row go into further lanes; the last lane takes the rest.
function lanesOf(spans) {
	const rows = ROWS.map(([key, label]) => ({ key, label,
		spans: spans.filter((s) => s.row === key).sort((a, b) => a.start - b.start), lanes: 1 }));
	for (const row of rows) {
		const ends = [];
		for (const s of row.spans) {
			let lane = ends.findIndex((end) => end <= s.start);
			if (lane < 0)
				lane = Math.min(ends.length, LANES - 1);
			ends[lane] = Math.max(ends[lane] ?? 0, s.end ?? Infinity);
			s.lane = lane;
		}
		row.lanes = Math.max(1, ends.length);
	}
	return rows;
}

const tickText = (t, step) => (step >= 864e5 ? formatTime(t).slice(5, 10) : step >= 1000 ? formatTime(t, false) : `${formatTime(t, false).slice(3)}.${String(Math.round(t % 1000)).padStart(3, "0")}`);

export function Timeline({ spans, range, onRange, selected, onSelect }) {
	const box = useRef();
	const [width, setWidth] = useState(900);
	const running = spans.some((s) => s.end === undefined);
	const now = useNow(running);
	const drag = useRef(null);
	useLayoutEffect(() => {
		const measure = () => setWidth(Math.max(320, box.current.clientWidth));
		measure();
		const observer = new ResizeObserver(measure);
		observer.observe(box.current);
		return () => observer.disconnect();
	}, []);
	const rows = useMemo(() => lanesOf(spans.map((s) => ({ ...s }))), [spans]);
	const order = useMemo(() => rows.flatMap((r) => r.spans).sort((a, b) => a.start - b.start || ROWS.findIndex(([k]) => k === a.row) - ROWS.findIndex(([k]) => k === b.row)), [rows]);
	const whole = useMemo(() => {
		const from = Math.min(...spans.map((s) => s.start));
		const to = Math.max(...spans.map((s) => s.end ?? now), from + 10);
		const margin = (to - from) * 0.02;
		return [from - margin, to + margin];
	}, [spans, now]);
	const [from, to] = range ?? whole;
	const inner = width - LEFT - PAD;
	const xOf = (t) => LEFT + ((t - from) / (to - from)) * inner;

	const show = (a, b) => {
		const least = 2, most = (whole[1] - whole[0]) * 1.5;
		const size = Math.min(most, Math.max(least, b - a));
		const middle = (a + b) / 2;
		onRange(size >= most ? null : [middle - size / 2, middle + size / 2]);
	};
	const zoom = (factor, at = (from + to) / 2) => show(at - (at - from) * factor, at + (to - at) * factor);
	const pan = (part) => show(from + (to - from) * part, to + (to - from) * part);
	const timeAt = (e) => from + ((e.clientX - box.current.getBoundingClientRect().left - LEFT) / inner) * (to - from);

	// The wheel zooms only with Ctrl, so that the page still scrolls; the listener must be able to stop the browser's own zoom.
	const wheel = useRef();
	wheel.current = (e) => {
		if (!e.ctrlKey && !e.shiftKey)
			return;
		e.preventDefault();
		if (e.shiftKey)
			pan(Math.sign(e.deltaY || e.deltaX) * 0.1);
		else
			zoom(e.deltaY > 0 ? 1.25 : 0.8, timeAt(e));
	};
	useEffect(() => {
		const node = box.current;
		const listen = (e) => wheel.current(e);
		node.addEventListener("wheel", listen, { passive: false });
		return () => node.removeEventListener("wheel", listen);
	}, []);

	const current = order.find((s) => s.id === selected);
	const pick = (s) => {
		if (!s)
			return;
		onSelect(s.id);
		const end = s.end ?? now;
		if (end < from || s.start > to)
			show(s.start - (to - from) / 2, s.start + (to - from) / 2);
	};
	const keys = (e) => {
		if (e.ctrlKey || e.metaKey || e.altKey)
			return;
		const at = order.indexOf(current);
		const rowAt = ROWS.findIndex(([k]) => k === current?.row);
		const near = (row) => row?.spans.length && row.spans.reduce((best, s) => (Math.abs(s.start - (current?.start ?? from)) < Math.abs(best.start - (current?.start ?? from)) ? s : best));
		const act = {
			ArrowRight: () => pick(order[Math.min(order.length - 1, at + 1)]),
				ArrowLeft: () => pick(order[Math.max(0, at - 1)]),
			ArrowDown: () => pick(near(rows.slice(rowAt + 1).find((r) => r.spans.length))),
				ArrowUp: () => rowAt > 0 && pick(near(rows.slice(0, rowAt).reverse().find((r) => r.spans.length))),
			"+": () => zoom(0.5, current ? (current.start + (current.end ?? now)) / 2 : undefined), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => onRange(null), "[": () => pan(-0.25), "]": () => pan(0.25),
			Enter: () => current && show(current.start - ((current.end ?? now) - current.start) * 0.2 - 1, (current.end ?? now) + ((current.end ?? now) - current.start) * 0.2 + 1),
		}[e.key];
		if (!act)
			return;
		act();
		e.preventDefault();
		e.stopPropagation();
	};

	let y = TOP;
	const placed = rows.map((row) => {
		const top = y;
		y += row.lanes * (LANE + GAP) + 7;
		return { ...row, top };
	});
	const height = y;
	const step = STEPS.find((s) => (s / (to - from)) * inner > 74) ?? STEPS[STEPS.length - 1];
	const ticks = [];
	for (let t = Math.ceil(from / step) * step; t <= to; t += step)
		ticks.push(t);
	return html`<section class="timeline" aria-label="Timeline"><div class="toolbar"><h2>Timeline</h2>
		<span class="faint num">${formatTime(from)} · ${formatDuration(to - from)}</span><span class="grow"></span>
			<button class="small" onClick=${() => pan(-0.25)} aria-label="Earlier">◀</button>
				<button class="small" onClick=${() => zoom(2)} aria-label="Zoom out">−</button>
				<button class="small" onClick=${() => zoom(0.5)} aria-label="Zoom in">+</button>
			<button class="small" onClick=${() => pan(0.25)} aria-label="Later">▶</button>
				<button class="small" disabled=${!range} onClick=${() => onRange(null)}>All</button></div>
		<div ref=${box} class="timeline-box" tabindex="0" role="group"
			aria-label=${`Timeline of ${order.length} spans. Arrow keys select a span, plus and minus zoom, brackets move, 0 shows all.`}
			onKeyDown=${keys}
			onPointerDown=${(e) => {
				if (e.button === 0 && !e.target.closest("[data-span]")) {
					drag.current = { x: e.clientX, from, to };
					e.currentTarget.setPointerCapture(e.pointerId);
				}
			}} onPointerMove=${(e) => {
				if (drag.current) {
					const by = ((e.clientX - drag.current.x) / inner) * (drag.current.to - drag.current.from);
					show(drag.current.from - by, drag.current.to - by);
				}
			}} onPointerUp=${() => (drag.current = null)} onPointerCancel=${() => (drag.current = null)}>
		<svg width=${width} height=${height} aria-hidden="true"><defs><clipPath id="timeline-clip">
			<rect x=${LEFT} y="0" width=${inner + PAD} height=${height} /></clipPath></defs>
			${ticks.map((t) => html`<g class="tick"><line x1=${xOf(t)} x2=${xOf(t)} y1=${TOP - 4} y2=${height} />
				<text x=${xOf(t)} y="11">${tickText(t, step)}</text></g>`)}
			${placed.map((row) => html`<text class="row-label" x="0" y=${row.top + 12}>${row.label}</text>`)}
			<g clip-path="url(#timeline-clip)">${placed.map((row) => {
				const last = [];    // of very narrow spans at the same place one is drawn
				return row.spans.map((s) => {
					const end = s.end ?? now;
					if (end < from || s.start > to)
						return null;
					const x = Math.max(LEFT - 2, xOf(s.start)), w = Math.max(2, Math.min(width, xOf(end)) - x);
					if (w <= 2 && s.id !== selected && Math.floor(x / 3) === last[s.lane])
						return null;
					last[s.lane] = w <= 2 ? Math.floor(x / 3) : -1;
					const top = row.top + s.lane * (LANE + GAP);
					return html`<g key=${s.id} data-span=${s.id}
						class=${`span ${s.row} ${TONE[s.status] ?? (s.end === undefined ? "live" : "good")} ${s.id === selected ? "selected" : ""}`}
						onClick=${() => pick(s)}
						onDblClick=${() => show(s.start - (end - s.start) * 0.2 - 1, end + (end - s.start) * 0.2 + 1)}>
						<title>${plain(`${s.label}: ${s.status}, ${formatDuration(end - s.start)}`)}</title>
							<rect x=${x} y=${top} width=${w} height=${LANE} rx="3" />
						${w > 34 && html`<text x=${x + 5} y=${top + 12}>
							${plain(s.label).slice(0, Math.floor((w - 8) / 6.4))}</text>`}</g>`;
				});
			})}</g></svg></div>
		<p class="chosen" role="status">${current ? html`<span class="faint">${current.row}</span> <b>
			<${Text} text=${current.label} /></b> <${Status} status=${current.status} /> <${Duration}
			since=${current.start} until=${current.end} />
			<span class="faint">at</span> <span class="num">${formatTime(current.start, false)}</span> ${current.href
				&& html`<a href=${current.href}>open</a>`}`
				: html`<span class="faint">Select a span, or use the arrow keys. Ctrl+wheel zooms, Shift+wheel moves.</span>`}</p></section>`;
}
