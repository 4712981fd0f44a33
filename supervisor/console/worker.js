// Shared by the tabs of a browser: holds their one connection to the event stream (upstream.js).
//
// The end of a tab shows by the lock that it holds, also if it crashed; so does the end of this worker to the tabs.

import { Upstream } from "./upstream.js";

const upstream = new Upstream();
const name = `bailiff worker ${crypto.randomUUID()}`;
const held = new Promise((ready) => navigator.locks.request(name, () => (ready(), new Promise(() => {}))));

onconnect = async ({ ports: [port] }) => {
	let tab = null;
	await held;
	port.onmessage = ({ data }) => {
		if (data.join && !tab) {
			tab = { id: data.join.lock, send: (message) => port.postMessage(message) };
			navigator.locks.request(tab.id, () => upstream.leave(tab));
			tab.send({ worker: name });
		}
		upstream.handle(tab, data);
	};
};
