// A dependency graph in layers, from left to right, as SVG. nodes: [{id, label, status}], edges: [{from, to, kind, status}].

import { Empty, html, plain, useMemo } from "./parts.js";

const W = 190, H = 40, GAP_X = 56, GAP_Y = 14, MARGIN = 8;
const TONE = { completed: "good", failed: "bad", lost: "bad", timed_out: "bad", cancelled: "off", archived: "off",
	running: "live", preparing: "live" };

// The longest path from a root; edges of a circle (there are none in a valid graph) are ignored.
function layersOf(nodes, edges) {
	const into = new Map(nodes.map((n) => [n.id, []]));
	for (const e of edges)
		into.get(e.to)?.push(e.from);
	const depth = new Map();
	const walk = (id, path) => {
		if (depth.has(id))
			return depth.get(id);
		if (path.has(id) || !into.has(id))
			return -1;
		path.add(id);
		const d = 1 + Math.max(-1, ...into.get(id).map((from) => walk(from, path)));
		path.delete(id);
		depth.set(id, d);
		return d;
	};
	nodes.forEach((n) => walk(n.id, new Set()));
	return depth;
}

function layout(nodes, edges) {
	const depth = layersOf(nodes, edges);
	const layers = [];
	for (const n of nodes)
		(layers[depth.get(n.id)] ??= []).push(n);
	const at = new Map();
	layers.forEach((layer, x) => {
		// Near the nodes that lead here, so that few edges cross.
		const weight = (n) => {
			const from = edges.filter((e) => e.to === n.id && at.has(e.from)).map((e) => at.get(e.from).y);
			return from.length ? from.reduce((a, b) => a + b, 0) / from.length : 0;
		};
		[...layer].map((n) => [weight(n), n]).sort((a, b) => a[0] - b[0]).forEach(([, n], y) => at.set(n.id, { x: MARGIN + x * (W + GAP_X),
			y: MARGIN + y * (H + GAP_Y) }));
	});
	const width = MARGIN * 2 + layers.length * (W + GAP_X) - GAP_X;
	const height = MARGIN * 2 + Math.max(1, ...layers.map((l) => l?.length ?? 0)) * (H + GAP_Y) - GAP_Y;
	return { at, width, height };
}

const clip = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);

export function Graph({ nodes, edges, current, label, hrefFor }) {
	const { at, width, height } = useMemo(() => layout(nodes, edges), [nodes, edges]);
	if (!nodes.length)
		return html`<${Empty}>Nothing depends on anything here.<//>`;
	return html`<div class="graph" tabindex="0" role="region" aria-label=${label}><svg width=${width} height=${height}
		viewBox=${`0 0 ${width} ${height}`}>
		<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
			<path d="M0 0 L8 4 L0 8 z" class="arrow" /></marker></defs>
		${edges.map((e) => {
			const a = at.get(e.from), b = at.get(e.to);
			if (!a || !b)
				return null;
			const x1 = a.x + W, y1 = a.y + H / 2, x2 = b.x, y2 = b.y + H / 2, bend = Math.max(24, (x2 - x1) / 2);
			return html`<path class=${`edge ${e.kind} ${e.status ?? ""}`}
				d=${`M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} marker-end="url(#arrow)">
				<title>${plain(`${e.kind.replaceAll("_", " ")}: ${e.status ?? ""}`)}</title></path>`;
		})}
		${nodes.map((n) => {
			const { x, y } = at.get(n.id);
			const text = plain(n.label || n.id);
			return html`<a href=${hrefFor(n)} aria-current=${n.id === current ? "true" : undefined}>
				<g class=${`node ${TONE[n.status] ?? "wait"} ${n.id === current ? "current" : ""}`}
				transform=${`translate(${x} ${y})`}>
				<rect width=${W} height=${H} rx="6" /><text x="10" y="17">${clip(text, 27)} ${text.length > 27
					&& html`<title>${text}</title>`}</text><text x="10" y="32" class="state">
					${plain(String(n.status ?? "").replaceAll("_", " "))}</text></g></a>`;
		})}</svg></div>`;
}
