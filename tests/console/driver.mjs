// A browser for the tests of the console: node driver.mjs PACKAGES CHROMIUM
//
// Reads one JSON object a line, {id, do, page, …}, and answers {id, result} or {id, error}. Steps wait until what they need is there,
// at most TIMEOUT_MS. Everything that a page reports as wrong (console errors and warnings, exceptions, violations of the content
// security policy, dialogs) is collected; `problems` returns it.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [packages, chromiumPath] = process.argv.slice(2);
const TIMEOUT_MS = 60000;
const { chromium } = await import(pathToFileURL(packages + '/node_modules/playwright-core/index.mjs'));
const axe = readFileSync(packages + '/node_modules/axe-core/axe.min.js', 'utf8');
// The page under test is our own; a sandbox of its own is not available to root and in containers.
const browser = await chromium.launch({ executablePath: chromiumPath, args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] });
const pages = new Map();
let next = 1;

function collect(page, problems) {
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && problems.push(`${m.type()}: ${m.text()} ${m.location().url}`));
  page.on('pageerror', (e) => problems.push(`exception: ${e.stack}`));
  page.on('dialog', (d) => {
    problems.push(`dialog: ${d.message()}`);
    d.dismiss();
  });
  page.on('popup', () => problems.push('popup'));
}

const STEPS = {
  // A tab of its own browser context, or with `like` of that of another tab.
  async open({ url, scheme = 'light', like, width = 1360, height = 820, init }) {
    const context = like ? pages.get(like).page.context() : await browser.newContext({ colorScheme: scheme, viewport: { width, height }, reducedMotion: 'reduce' });
    const page = await context.newPage();
    const problems = [];
    page.setDefaultTimeout(TIMEOUT_MS);
    collect(page, problems);
    await page.addInitScript(() => addEventListener('securitypolicyviolation', (e) => console.error(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`)));
    if (init) await page.addInitScript(init);
    pages.set(next, { page, problems });
    await page.goto(url);
    return next++;
  },
  close: async ({ page, id }) => {
    pages.delete(id);
    await page.context().close();
  },
  // Only this tab; the others of its context stay open.
  close_tab: ({ page }) => page.close(),
  // Another view of the same document: no reload, as for a reader who follows a link.
  hash: ({ page, hash }) => page.evaluate((h) => { location.hash = h; }, hash),
  reload: ({ page }) => page.reload(),
  wait: ({ page, selector, gone }) => page.locator(selector).first().waitFor({ state: gone ? 'hidden' : 'visible' }),
  click: ({ page, selector }) => page.locator(selector).first().click(),
  fill: ({ page, selector, text }) => page.locator(selector).first().fill(text),
  select: ({ page, selector, value }) => page.locator(selector).first().selectOption(value),
  press: ({ page, key, selector }) => (selector ? page.locator(selector).first().press(key) : page.keyboard.press(key)),
  type: ({ page, text }) => page.keyboard.type(text),
  text: ({ page, selector }) => page.locator(selector).first().innerText(),
  count: ({ page, selector }) => page.locator(selector).count(),
  evaluate: ({ page, script, arg }) => page.evaluate(`(async (arg) => { ${script} })(${JSON.stringify(arg ?? null)})`),
  // Waits until the script returns something true.
  until: async ({ page, script, arg }) => {
    const end = Date.now() + TIMEOUT_MS;
    for (;;) {
      const value = await page.evaluate(`(async (arg) => { ${script} })(${JSON.stringify(arg ?? null)})`);
      if (value) return value;
      if (Date.now() > end) throw new Error(`never true: ${script}`);
      await page.waitForTimeout(50);
    }
  },
  // The same click in several tabs, as close together as possible.
  race: ({ tabs, selector }) => Promise.all(tabs.map((tab) => pages.get(tab).page.locator(selector).first().click())).then(() => true),
  // Answers calls of a method in the page, without the gateway: script(params) returns the result.
  serve: ({ page, method, script }) => page.evaluate(`window.fetch = ((real) => (path, options) => {
    const body = path === '/api/call' ? JSON.parse(options.body) : {};
    if (body.method !== ${JSON.stringify(method)}) return real(path, options);
    return Promise.resolve(new Response(JSON.stringify({ result: ((params) => { ${script} })(body.params) })));
  })(window.fetch); null`),
  download: async ({ page, selector }) => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.locator(selector).first().click()]);
    return readFileSync(await download.path(), 'base64');
  },
  // Violations of the accessibility rules; in the dark theme only those of colour, the rest being the same.
  async axe({ page }) {
    if (!(await page.evaluate('typeof axe !== "undefined"'))) await page.evaluate(axe);
    const found = [];
    for (const [scheme, runOnly] of [['light', ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']], ['dark', { type: 'rule', values: ['color-contrast'] }]]) {
      await page.emulateMedia({ colorScheme: scheme });
      const { violations } = await page.evaluate(`axe.run(document, ${JSON.stringify({ runOnly, resultTypes: ['violations'] })})`);
      found.push(...violations.map((v) => `${scheme}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')}`));
    }
    return found;
  },
  // Bytes of JavaScript objects that are in use.
  async heap({ page }) {
    const session = await page.context().newCDPSession(page);
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize } = await session.send('Runtime.getHeapUsage');
    await session.detach();
    return usedSize;
  },
  shot: ({ page, path }) => page.screenshot({ path }).then(() => true),
};

for await (const line of createInterface({ input: process.stdin })) {
  const step = JSON.parse(line);
  const entry = pages.get(step.page);
  let reply;
  try {
    const result = step.do === 'problems' ? entry.problems.splice(0) : await STEPS[step.do]({ ...step, page: entry?.page, id: step.page });
    reply = { id: step.id, result: result === undefined || typeof result?.toJSON === 'function' ? null : result };
    JSON.stringify(reply);
  } catch (e) {
    reply = { id: step.id, error: `${step.do} ${step.selector ?? step.hash ?? ''}: ${e.message}`, problems: entry?.problems };
  }
  process.stdout.write(JSON.stringify(reply, (key, value) => (typeof value === 'function' ? undefined : value)) + '\n');
}
await browser.close();
