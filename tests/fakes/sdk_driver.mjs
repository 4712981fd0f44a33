// A provider's official SDK against a fake: node sdk_driver.mjs PACKAGES DIALECT ORIGIN KEY
//
// Runs one conversation with tools: a streamed answer with reasoning, text and two calls; their results and a streamed answer; a request whose calls have no
// results; one that is rate limited; one without a stream. Prints what the SDK made of it, in the same form for every dialect.
import { createRequire } from 'node:module';

const [packages, dialect, origin, apiKey] = process.argv.slice(2);
const require = createRequire(packages + '/package.json');
const schema = { type: 'object', properties: { command: { type: 'string' } } };
const tools = ['shell', 'read'];
const prompt = 'What is here?';
const out = {};

const failure = async (promise) => {
  try {
    await promise();
    return null;
  } catch (e) {
    return { status: e.status, message: e.message, retryAfter: e.headers?.get?.('retry-after') ?? null };
  }
};
const result = (call) => `output of ${call.name}`;

async function anthropic() {
  const { default: Anthropic } = require('@anthropic-ai/sdk');
  const client = new Anthropic({ apiKey, baseURL: origin, maxRetries: 0 });
  const request = {
    model: 'claude-fake', max_tokens: 4096, system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
    thinking: { type: 'adaptive' }, tools: tools.map((name) => ({ name, description: name, input_schema: schema })),
  };
  const messages = [{ role: 'user', content: prompt }];
  const stream = client.messages.stream({ ...request, messages });
  let text = '', reasoning = '';
  stream.on('text', (t) => (text += t)).on('thinking', (t) => (reasoning += t));
  const answer = await stream.finalMessage();
  const calls = answer.content.filter((b) => b.type === 'tool_use').map((b) => ({ id: b.id, name: b.name, arguments: b.input }));
  const usage = (u) => ({ input: u.input_tokens + u.cache_read_input_tokens + u.cache_creation_input_tokens, output: u.output_tokens, cached: u.cache_read_input_tokens });
  Object.assign(out, { text, reasoning, calls, stop: answer.stop_reason, usage: usage(answer.usage) });
  messages.push({ role: 'assistant', content: answer.content });
  messages.push({ role: 'user', content: calls.map((c) => ({ type: 'tool_result', tool_use_id: c.id, content: result(c) })) });
  const second = await client.messages.stream({ ...request, messages }).finalMessage();
  out.second = { text: second.content.map((b) => b.text ?? '').join(''), stop: second.stop_reason, usage: usage(second.usage) };
  out.rejected = await failure(() => client.messages.create({ ...request, messages: [...messages.slice(0, 2), { role: 'user', content: 'go on' }] }));
  out.limited = await failure(() => client.messages.create({ ...request, messages: messages.slice(0, 1) }));
  const whole = await client.messages.create({ ...request, messages: messages.slice(0, 1) });
  out.whole = whole.content.map((b) => b.text ?? '').join('');
}

async function responses() {
  const { default: OpenAI } = require('openai');
  const client = new OpenAI({ apiKey, baseURL: origin + '/v1', maxRetries: 0 });
  const request = {
    model: 'gpt-fake', instructions: 'Be brief.', store: false, include: ['reasoning.encrypted_content'], reasoning: { effort: 'low', summary: 'auto' },
    prompt_cache_key: 'thread', tools: tools.map((name) => ({ type: 'function', name, description: name, parameters: schema, strict: false })),
  };
  const input = [{ role: 'user', content: [{ type: 'input_text', text: prompt }] }];
  const usage = (u) => ({ input: u.input_tokens, output: u.output_tokens, cached: u.input_tokens_details.cached_tokens });
  const run = async () => {
    let text = '', reasoning = '', final = null, sequence = -1;
    const stream = client.responses.stream({ ...request, input });
    for await (const event of stream) {
      if (event.sequence_number !== ++sequence)
        throw new Error(`sequence ${event.sequence_number} instead of ${sequence}`);
      if (event.type === 'response.output_text.delta') text += event.delta;
      if (event.type === 'response.reasoning_summary_text.delta') reasoning += event.delta;
      if (event.type === 'response.completed') final = event.response;
    }
    return { text, reasoning, final, helped: await stream.finalResponse() };
  };
  const first = await run();
  const calls = first.helped.output.filter((i) => i.type === 'function_call').map((i) => ({ id: i.call_id, name: i.name, arguments: JSON.parse(i.arguments) }));
  Object.assign(out, { text: first.text, reasoning: first.reasoning, calls, stop: first.final.status, usage: usage(first.final.usage) });
  input.push(...first.final.output);
  for (const c of calls)
    input.push({ type: 'function_call_output', call_id: c.id, output: result(c) });
  const second = await run();
  out.second = { text: second.helped.output_text, stop: second.final.status, usage: usage(second.final.usage) };
  out.rejected = await failure(() => client.responses.create({ ...request, input: input.slice(0, -1) }));
  out.limited = await failure(() => client.responses.create({ ...request, input: prompt }));
  out.whole = (await client.responses.create({ ...request, input: prompt })).output_text;
}

async function chat() {
  const { default: OpenAI } = require('openai');
  const client = new OpenAI({ apiKey, baseURL: origin + '/v1', maxRetries: 0 });
  const request = { model: 'local-fake', tools: tools.map((name) => ({ type: 'function', function: { name, description: name, parameters: schema } })) };
  const streamed = { ...request, stream: true, stream_options: { include_usage: true } };
  const messages = [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: prompt }];
  const usage = (u) => ({ input: u.prompt_tokens, output: u.completion_tokens, cached: u.prompt_tokens_details.cached_tokens });
  const run = async () => {
    let reasoning = '';
    const stream = client.chat.completions.stream({ ...streamed, messages });
    stream.on('chunk', (c) => (reasoning += c.choices[0]?.delta?.reasoning_content ?? ''));
    const final = await stream.finalChatCompletion();
    return { final, reasoning };
  };
  const { final, reasoning } = await run();
  const message = final.choices[0].message;
  const calls = message.tool_calls.map((c) => ({ id: c.id, name: c.function.name, arguments: JSON.parse(c.function.arguments) }));
  Object.assign(out, { text: message.content, reasoning, calls, stop: final.choices[0].finish_reason, usage: usage(final.usage) });
  messages.push({ role: 'assistant', content: message.content, tool_calls: message.tool_calls.map(({ id, type, function: f }) => ({ id, type, function: { name: f.name, arguments: f.arguments } })) });
  for (const c of calls)
    messages.push({ role: 'tool', tool_call_id: c.id, content: result(c) });
  const second = (await run()).final;
  out.second = { text: second.choices[0].message.content, stop: second.choices[0].finish_reason, usage: usage(second.usage) };
  out.rejected = await failure(() => client.chat.completions.create({ ...request, messages: messages.slice(0, -1) }));
  out.limited = await failure(() => client.chat.completions.create({ ...request, messages: messages.slice(0, 2) }));
  out.whole = (await client.chat.completions.create({ ...request, messages: messages.slice(0, 2) })).choices[0].message.content;
}

async function gemini() {
  const { GoogleGenAI } = require('@google/genai');
  const ai = new GoogleGenAI({ apiKey, httpOptions: { baseUrl: origin, retryOptions: { attempts: 1 } } });
  const request = {
    model: 'gemini-3-fake',
    config: { systemInstruction: 'Be brief.', tools: [{ functionDeclarations: tools.map((name) => ({ name, description: name, parametersJsonSchema: schema })) }] },
  };
  const contents = [{ role: 'user', parts: [{ text: prompt }] }];
  const usage = (u) => ({ input: u.promptTokenCount, output: u.candidatesTokenCount + (u.thoughtsTokenCount ?? 0), cached: u.cachedContentTokenCount ?? 0 });
  const run = async () => {
    const parts = [];
    let last = null, finish = null;
    for await (const chunk of await ai.models.generateContentStream({ ...request, contents })) {
      parts.push(...(chunk.candidates[0].content.parts ?? []));
      finish = chunk.candidates[0].finishReason ?? finish;
      last = chunk;
    }
    const text = (thought) => parts.filter((p) => p.text && !!p.thought === thought).map((p) => p.text).join('');
    return { parts, finish, text: text(false), reasoning: text(true), usage: usage(last.usageMetadata) };
  };
  const first = await run();
  const calls = first.parts.filter((p) => p.functionCall).map((p) => ({ id: p.functionCall.id, name: p.functionCall.name, arguments: p.functionCall.args }));
  Object.assign(out, { text: first.text, reasoning: first.reasoning, calls, stop: first.finish, usage: first.usage });
  contents.push({ role: 'model', parts: first.parts });
  contents.push({ role: 'user', parts: calls.map((c) => ({ functionResponse: { id: c.id, name: c.name, response: { output: result(c) } } })) });
  const second = await run();
  out.second = { text: second.text, stop: second.finish, usage: second.usage };
  const bare = contents.map((c) => ({ role: c.role, parts: c.parts.map(({ thoughtSignature, ...p }) => p) }));
  out.rejected = await failure(() => ai.models.generateContent({ ...request, contents: bare }));
  out.limited = await failure(() => ai.models.generateContent({ ...request, contents: contents.slice(0, 1) }));
  out.whole = (await ai.models.generateContent({ ...request, contents: contents.slice(0, 1) })).text;
}

await { anthropic, 'openai-responses': responses, 'openai-chat': chat, gemini }[dialect]();
console.log(JSON.stringify(out));
