// A provider of the contract in Node, for tests of the page that need a provider to do one exact thing at one exact moment. It serves the page's own files
// under the same headers as the program does.
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { WebSocketServer } from "ws";

const PAGE = new URL("../../src/preview/page/", import.meta.url);
const TYPES = { html: "text/html; charset=utf-8", css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8", svg: "image/svg+xml" };
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify";
const DIGEST = createHash("sha256").update("1001").digest("hex");
export const SELF = `account:${DIGEST}`;

/** One Bot and what was said. */
class Bot {
  constructor(provider, title, id) {
    Object.assign(this, { provider, title });
    this.id = `grok-bot:${DIGEST}:${id}`;
    this.agent = `agent:${id}`;
    this.messages = [];
    this.generation = 1;
    this.number = 0;
    this.ready = true;
    this.activity = null;
  }

  get head() {
    return this.ready && this.messages.length > 0 ? this.messages.at(-1).cursor : null;
  }

  record() {
    return {
      id: this.id,
      protocol: "coda/session@1",
      title: this.title,
      container: { id: `grok-bot:${DIGEST}`, title: "Sample Person" },
      participants: [
        { id: SELF, name: "Sample Person", kind: "person", self: true },
        { id: this.agent, name: this.title, kind: "agent" },
      ],
      head: this.head,
      ...(this.activity && { activity: this.activity }),
      actions: ["read", "post"],
      views: ["bind"],
    };
  }

  /** Appends a message; `quietly` without telling the head. */
  add({ entry = `t${this.number + 1}`, text = "", own = false, at = Date.now(), quietly = false, number, ...rest }) {
    this.number = number ?? this.number + 1;
    const message = {
      id: `${this.generation}:${entry}`,
      cursor: `${this.generation}:${this.number}`,
      from: own ? SELF : this.agent,
      at: new Date(at).toISOString(),
      text,
      ...rest,
    };
    this.messages.push(message);
    if (!quietly) this.tellHead();
    return message;
  }

  say(text, more = {}) {
    return this.add({ text, ...more });
  }

  edit(message, text, more = {}) {
    const about = { message: message.id, change: "edit" };
    return this.add({ entry: `${message.id.split(":")[1]}:edit:${this.number + 1}`, text, about, own: message.from === SELF, ...more });
  }

  remove(message) {
    const about = { message: message.id, change: "delete" };
    return this.add({ entry: `${message.id.split(":")[1]}:delete:${this.number + 1}`, about, own: message.from === SELF });
  }

  ask(prompt, options) {
    const list = options.map(([label, value]) => ({ label, value: value ?? label }));
    const lines = list.map(({ label, value }) => (label === value ? `- ${label}` : `- ${label}（${value}）`));
    return this.add({ text: [prompt, ...lines].join("\n"), _meta: { "grok-bot": { widget: { prompt, options: list } } } });
  }

  /** The answer of a widget. */
  answer(message, label, more = {}) {
    return this.add({ entry: `${message.id.split(":")[1]}:reply`, text: label, own: true, replyTo: { message: message.id }, mentions: [this.agent], ...more });
  }

  fill(count, text = (n) => `第 ${n} 条消息`) {
    const start = Date.now() - count * 60_000;
    for (let n = 1; n <= count; n += 1) this.add({ text: text(n), own: n % 3 === 0, at: start + n * 60_000, quietly: true });
    this.tellHead();
  }

  tellHead() {
    if (this.head !== null) this.provider.notify("session/head", { record: this.id, head: this.head });
  }

  work(status) {
    this.activity = status === null ? null : { status, participant: this.agent };
    this.provider.notify("session/activity", { record: this.id, activity: this.activity });
  }

  /** The history begins anew; it can be read when `ready` is true. */
  reset({ ready = true } = {}) {
    this.generation += 1;
    this.number = 0;
    this.messages = [];
    this.ready = ready;
    this.provider.notify("session/head", { record: this.id, head: null });
  }

  read({ after, before, limit = 50 }) {
    if (!this.ready) throw { code: -32011, message: "这个 Bot 的历史还在读取，请稍后再试。", data: { kind: "not_ready" } };
    const bound = after ?? before;
    if (bound !== undefined && bound.split(":")[0] !== String(this.generation)) {
      throw { code: -32010, message: "这个 Bot 的历史已被重置，请从头重新读取。", data: { kind: "history_reset", head: this.head } };
    }
    const at = (message) => Number(message.cursor.split(":")[1]);
    const place = bound === undefined ? undefined : Number(bound.split(":")[1]);
    const { messages } = this;
    let from = Math.max(0, messages.length - limit);
    let to = messages.length;
    if (before !== undefined) {
      to = messages.findIndex((message) => at(message) >= place);
      if (to < 0) to = messages.length;
      from = Math.max(0, to - limit);
    } else if (after !== undefined) {
      from = messages.findIndex((message) => at(message) > place);
      if (from < 0) from = messages.length;
      to = Math.min(messages.length, from + limit);
    }
    return { messages: messages.slice(from, to), head: this.head, hasMore: { before: from > 0, after: to < messages.length } };
  }
}

export class Provider {
  constructor({ demo = true } = {}) {
    this.demo = demo;
    this.key = randomBytes(16).toString("hex");
    this.bots = [];
    this.sockets = new Set();
    this.port = 0;
    this.status = { state: "signedIn", account: { id: DIGEST, name: "Sample Person" } };
    /** Every request of the page: `{method, params}`. */
    this.requests = [];
    /** What becomes of a post: a function of its params that may call `settle`; by default it is echoed. */
    this.onPost = (params) => this.echo(params);
    this.onSignIn = () => {
      const link = { url: "http://127.0.0.1:9/loginDeepControl?challenge=abc&uuid=def", expiresAt: new Date(Date.now() + 899_000).toISOString() };
      this.setStatus({ state: "confirming", ...link });
      return link;
    };
    this.onBind = () => ({ status: "sent", text: "已发给 Bot" });
  }

  static async start(options) {
    const provider = new Provider(options);
    await provider.listen();
    return provider;
  }

  async listen() {
    this.process = randomUUID();
    this.server = createServer((request, response) => this.serve(request, response));
    const sockets = new WebSocketServer({ noServer: true, handleProtocols: () => "coda-grok-bot.host" });
    this.server.on("upgrade", (request, socket, head) => {
      const offered = (request.headers["sec-websocket-protocol"] ?? "").split(/, */);
      if (!offered.includes(`key.${this.key}`)) return socket.end("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
      sockets.handleUpgrade(request, socket, head, (accepted) => this.accept(accepted));
    });
    this.server.listen(this.port, "127.0.0.1");
    await once(this.server, "listening");
    this.port = this.server.address().port;
  }

  /** As if the process had been killed: whoever is connected is cut off. */
  async kill() {
    for (const socket of this.sockets) socket.terminate();
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, "close");
  }

  get origin() {
    return `http://127.0.0.1:${this.port}`;
  }

  get link() {
    return `${this.origin}/#key=${this.key}`;
  }

  bot(title, id = randomUUID()) {
    const bot = new Bot(this, title, id);
    this.bots.push(bot);
    this.notify("records/put", { record: bot.record() });
    return bot;
  }

  withdraw(bot, reason = "deleted") {
    this.bots = this.bots.filter((other) => other !== bot);
    this.notify("records/withdrawn", { record: bot.id, reason });
  }

  wholeStatus() {
    const button = (bot) => ({ text: "绑定", view: "bind", args: [bot.id] });
    return { ...this.status, items: this.bots.map((bot) => ({ record: bot.id, title: bot.title, button: button(bot) })) };
  }

  setStatus(status) {
    this.status = status;
    this.notify("resource/changed", this.wholeStatus());
  }

  notify(method, params) {
    for (const socket of this.sockets) if (socket.ready) socket.send(JSON.stringify({ jsonrpc: "2.0", method, params }));
  }

  settle(run, outcome) {
    this.notify("run/settled", { run, ...outcome });
  }

  echo({ record, run, text, replyTo }) {
    const bot = this.bots.find(({ id }) => id === record);
    const asked = bot.messages.find(({ id }) => id === replyTo);
    const option = asked?._meta?.["grok-bot"].widget?.options.find(({ label, value }) => [label, value].includes(text.trim()));
    const message = option ? bot.answer(asked, option.label) : bot.add({ text, own: true, ...(replyTo && { replyTo: { message: replyTo } }) });
    this.settle(run.id, { state: "completed", result: { message: { id: message.id, cursor: message.cursor } } });
  }

  async serve(request, response) {
    const path = new URL(request.url, this.origin).pathname;
    response.setHeader("content-security-policy", POLICY);
    response.setHeader("cache-control", "no-store");
    if (path.startsWith("/host/")) {
      if (request.headers["x-preview-key"] !== this.key) return response.writeHead(403).end();
      let body = "";
      for await (const part of request) body += part;
      const answers = {
        "/host/hello": () => ({ process: this.process, demo: this.demo, version: "0.5.0" }),
        "/host/qr": () => ({ rows: Array.from({ length: 25 }, (_, y) => Array.from({ length: 25 }, (_, x) => ((x * y) % 3 ? "1" : "0")).join("")) }),
        "/host/remote-code": () => ({ code: "CODE-1", expiresAt: new Date(Date.now() + 600_000).toISOString(), addresses: [this.origin] }),
      };
      return response.setHeader("content-type", "application/json").end(JSON.stringify(answers[path]()));
    }
    try {
      const file = path === "/" ? "index.html" : path.slice(1);
      const content = await readFile(new URL(file, PAGE));
      response.setHeader("content-type", TYPES[file.split(".").at(-1)]).end(content);
    } catch {
      response.writeHead(404).end();
    }
  }

  accept(socket) {
    this.sockets.add(socket);
    socket.on("close", () => this.sockets.delete(socket));
    socket.on("message", async (data) => {
      const message = JSON.parse(data);
      if (message.method === undefined) return this.answered?.(message);
      this.requests.push(message);
      let outcome;
      let after = () => {};
      try {
        const result = await this.call(message.method, message.params, socket, (later) => (after = later));
        outcome = { result };
      } catch (error) {
        outcome = { error: error.code ? error : { code: -32603, message: String(error) } };
      }
      socket.send(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...outcome }));
      after();
    });
  }

  call(method, params, socket, after) {
    const bot = this.bots.find(({ id }) => id === params.record);
    switch (method) {
      case "initialize":
        after(() => {
          socket.ready = true;
          for (const { id } of params.openRuns ?? []) this.settle(id, { state: "failed", reason: "unknown", message: "无法确认消息是否已经发出。" });
          this.notify("resource/changed", this.wholeStatus());
          for (const each of this.bots) this.notify("records/put", { record: each.record() });
        });
        return { plugin: { id: "grok-bot", version: "0.5.0" }, protocolVersion: "5.7.0", protocols: ["coda/session@1"], views: ["bind"] };
      case "resource/status":
        return this.wholeStatus();
      case "resource/signIn":
        return this.onSignIn();
      case "resource/cancelSignIn":
        this.setStatus({ state: "signedOut" });
        return null;
      case "resource/signOut":
        this.setStatus({ state: "signedOut" });
        for (const each of this.bots) this.notify("records/withdrawn", { record: each.id, reason: "signedOut" });
        this.bots = [];
        return null;
      case "records/list":
        return { records: this.bots.map((each) => each.record()) };
      case "session/read":
        if (bot === undefined) throw { code: -32004, message: "找不到这条记录", data: { kind: "record_not_found" } };
        return bot.read(params);
      case "session/post":
        after(() => this.onPost(params));
        return { accepted: true };
      case "view/open":
        return this.onBind(params, socket);
      default:
        throw { code: -32601, message: method };
    }
  }
}
