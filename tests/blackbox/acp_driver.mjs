// The released ACP client, driven by a test: node acp_driver.mjs PACKAGES SETTINGS COMMAND ARG…
//
// SETTINGS: {env, cwd, option, buffers: {path: text}, steps: [[method, params]…]}. "$session" in params is the session of the last session/new. Permission is
// answered with `option`. Prints {result} or {error} of each step, and {update} and {asked} as they come.
import { spawn } from 'node:child_process';
import { Readable, Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';

const [packages, settingsText, command, ...args] = process.argv.slice(2);
const settings = JSON.parse(settingsText);
const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');
const acp = await import(pathToFileURL(packages + '/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js'));

const agent = spawn(command, args, { env: settings.env, cwd: settings.cwd, stdio: ['pipe', 'pipe', 'inherit'] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const client = acp.client({ name: 'bailiff-test' })
  .onNotification(acp.methods.client.session.update, ({ params }) => say({ update: params }))
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    say({ asked: params });
    return { outcome: { outcome: 'selected', optionId: settings.option } };
  })
  .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => ({ content: settings.buffers[params.path] }));

await client.connectWith(stream, async (peer) => {
  let session;
  for (const [method, params] of settings.steps) {
    try {
      const result = await peer.request(method, JSON.parse(JSON.stringify(params).replaceAll('$session', session)));
      session = result?.sessionId || session;
      say({ method, result });
    } catch (e) {
      say({ method, error: { code: e.code, message: e.message } });
    }
  }
});
agent.stdin.end();
agent.on('exit', (status) => process.exit(status));
