// A stand-in of Coda's remote entry, on loopback. What the real one does beyond
// the public description is assumed; docs/remote.md lists it.

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import https from "node:https";

/** Every token any stand-in of this process has given out: outputs are searched for them. */
export const issuedTokens = new Set();

const CODE_LIFE_MS = 10 * 60_000;
const BINDS_A_MINUTE = 30;
const BODY_LIMIT = 256 * 1024;

export class Coda {
  now = 1_800_000_000_000; // the clock: tests move it
  codes = new Map(); // code -> { record, expires }
  tokens = new Map(); // record -> token
  bindTimes = [];
  calls = []; // { record, method, params }
  requests = []; // { method, url, headers, body }
  /** (call, response) => result to send, or undefined if the handler answered on its own. */
  onCall = ({ method, params }) => ({ echo: method, params });
  /** Set to take over a raw request before anything is judged. */
  onRequest = undefined;

  static async start(t, { tls } = {}) {
    const coda = new Coda();
    const serve = (request, response) => coda.#serve(request, response).catch(() => response.destroy());
    coda.server = tls ? https.createServer(tls, serve) : http.createServer(serve);
    coda.server.listen(0, "127.0.0.1");
    await once(coda.server, "listening");
    coda.port = coda.server.address().port;
    coda.address = `${tls ? "https" : "http"}://127.0.0.1:${coda.port}`;
    t.after(() => {
      coda.server.close();
      coda.server.closeAllConnections();
    });
    return coda;
  }

  issueCode(record) {
    const code = randomBytes(12).toString("base64");
    this.codes.set(code, { record, expires: this.now + CODE_LIFE_MS });
    return code;
  }

  async #serve(request, response) {
    const parts = [];
    for await (const part of request) parts.push(part);
    const body = Buffer.concat(parts).toString();
    this.requests.push({ method: request.method, url: request.url, headers: request.headers, body });
    const send = (status, value) => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(value));
    };
    if (this.onRequest) return this.onRequest(request, response, send);
    if (request.url === "/v1/remote-caller/bind" && request.method === "POST") return this.#bind(body, send);
    if (request.url === "/v1/remote-caller" && request.method === "POST") return this.#call(request, response, body, send);
    send(404, { code: "not_found", message: "no such path" });
  }

  #bind(body, send) {
    this.bindTimes = this.bindTimes.filter((time) => time > this.now - 60_000);
    if (this.bindTimes.length >= BINDS_A_MINUTE) return send(429, { code: "rate_limited", message: "too many" });
    this.bindTimes.push(this.now);
    const { code } = JSON.parse(body);
    const entry = this.codes.get(code);
    this.codes.delete(code);
    if (!entry || entry.expires <= this.now) return send(401, { code: "bad_code", message: "unknown, used or expired" });
    const token = randomBytes(24).toString("base64url");
    issuedTokens.add(token);
    this.tokens.set(entry.record, token);
    send(200, { token, record: entry.record });
  }

  async #call(request, response, body, send) {
    const record = [...this.tokens].find(([, token]) => request.headers.authorization === `Bearer ${token}`)?.[0];
    if (!record) return send(401, { code: "unauthorized", message: "bad token" });
    if (Buffer.byteLength(body) > BODY_LIMIT) return send(413, { code: "too_large", message: "too large" });
    const call = { record, ...JSON.parse(body) };
    this.calls.push(call);
    const result = await this.onCall(call, response, send);
    if (result !== undefined) send(200, { result });
  }
}
