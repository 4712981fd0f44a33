// One of the released MCP clients, driven by a test: node mcp_driver.mjs PACKAGES sdk|client SETTINGS COMMAND ARG…
//
// Each line of stdin is a request {id, do, …}; it is answered by {id, result} or {id, error}. What the server sends by itself comes as
// {note, …}: progress, notifications, what it asks, the end of the connection. How questions are answered is told by {do:"answer"}.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [packages, which, settingsText, command, ...args] = process.argv.slice(2);
const settings = JSON.parse(settingsText);
const require = createRequire(packages + '/package.json');
const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');
const old = which === 'sdk';

const { Client } = old ? require('@modelcontextprotocol/sdk/client/index.js') : require('@modelcontextprotocol/client');
const { StdioClientTransport } = old ? require('@modelcontextprotocol/sdk/client/stdio.js') : require('@modelcontextprotocol/client/stdio');
const types = old ? require('@modelcontextprotocol/sdk/types.js') : null;

const capabilities = settings.elicitation === false ? {} : { elicitation: { form: {} } };
const options = { capabilities };
if (!old)
  options.versionNegotiation = { mode: settings.mode || 'auto' };
const client = new Client({ name: 'bailiff-test-' + which, version: '1' }, options);
// With settings.url over HTTP, to a server that runs already.
const { StreamableHTTPClientTransport } = old ? require('@modelcontextprotocol/sdk/client/streamableHttp.js') : require('@modelcontextprotocol/client');
const transport = settings.url
  ? new StreamableHTTPClientTransport(new URL(settings.url), { requestInit: { headers: { Authorization: `Bearer ${settings.token}` } } })
  : new StdioClientTransport({ command, args, env: settings.env, cwd: settings.cwd, stderr: 'inherit' });

let answer = { action: 'decline' };
const onAsked = async (request) => {
  say({ note: 'asked', params: request.params });
  return answer;
};
if (settings.elicitation !== false)
  client.setRequestHandler(old ? types.ElicitRequestSchema : 'elicitation/create', onAsked);
client.fallbackNotificationHandler = async (n) => say({ note: 'notification', method: n.method, params: n.params });
client.onclose = () => say({ note: 'closed' });
client.onerror = (e) => say({ note: 'trouble', message: String(e) });

const aborts = new Map();
const subscriptions = new Map();

function requestOptions(m) {
  const abort = new AbortController();
  aborts.set(m.id, abort);
  const o = { signal: abort.signal, timeout: m.timeout || 120000, resetTimeoutOnProgress: true };
  if (m.progress)
    o.onprogress = (p) => say({ note: 'progress', of: m.id, ...p });
  return o;
}

const verbs = {
  about: async () => ({ capabilities: client.getServerCapabilities(), server: client.getServerVersion(), instructions: client.getInstructions(),
                        version: old ? null : client.getNegotiatedProtocolVersion(), pid: transport.pid }),
  tools: async () => client.listTools(),
  call: async (m) => old ? client.callTool(m.params, undefined, requestOptions(m)) : client.callTool(m.params, requestOptions(m)),
  resources: async (m) => client.listResources(m.params),
  templates: async () => client.listResourceTemplates(),
  read: async (m) => client.readResource(m.params, requestOptions(m)),
  prompts: async () => client.listPrompts(),
  prompt: async (m) => client.getPrompt(m.params),
  complete: async (m) => client.complete(m.params),
  subscribe: async (m) => {
    if (client.getProtocolEra?.() === 'modern') {
      subscriptions.set(m.uri, await client.listen({ resourceSubscriptions: [m.uri] }));
      return {};
    }
    return client.subscribeResource({ uri: m.uri });
  },
  // The client of the first era has calls as tasks; both ends of it come in one answer.
  task: async (m) => {
    const seen = [];
    for await (const message of client.experimental.tasks.callToolStream(m.params, types.CallToolResultSchema, { task: { ttl: 600000 }, timeout: 120000 }))
      seen.push(message.type === 'error' ? { type: 'error', error: String(message.error) } : message);
    return { seen };
  },
  // All of a resource, page by page, as a client reads it.
  whole: async (m) => {
    let uri = m.uri, bytes = 0, pages = 0;
    const hash = require('node:crypto').createHash('sha256');
    while (uri) {
      const { contents } = await client.readResource({ uri });
      for (const c of contents) {
        const data = c.text !== undefined ? Buffer.from(c.text, 'utf8') : Buffer.from(c.blob, 'base64');
        hash.update(data);
        bytes += data.length;
      }
      uri = contents.at(-1)._meta?.['bailiff/next'];
      pages++;
    }
    return { bytes, pages, sha256: hash.digest('hex') };
  },
  answer: async (m) => { answer = m.answer; return {}; },
  abort: async (m) => { aborts.get(m.of)?.abort('the test says so'); return {}; },
  close: async () => { await client.close(); return {}; },
};

async function take(line) {
  const m = JSON.parse(line);
  try {
    say({ id: m.id, result: await verbs[m.do](m) });
  } catch (e) {
    say({ id: m.id, error: { message: e.message ?? String(e), code: e.code ?? null, data: e.data ?? null } });
  } finally {
    aborts.delete(m.id);
  }
}

try {
  await client.connect(transport);
  say({ note: 'connected', pid: transport.pid });
} catch (e) {
  say({ note: 'failed', message: e.stack });
  process.exit(1);
}
createInterface({ input: process.stdin }).on('line', take).on('close', async () => { await client.close(); process.exit(0); });
