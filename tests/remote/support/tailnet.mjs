// Stand-ins for the tailnet: its command line, and the HTTP proxy that the daemon
// offers in userspace mode. The proxy is a real one; it knows one made-up tailnet
// host and leads to loopback whatever is asked of it under that name.

import { once } from "node:events";
import fs from "node:fs";
import http from "node:http";
import net from "node:net";
import path from "node:path";
import { temporaryFolder } from "./run.mjs";

/** A folder for PATH with a `tailscale` that says what it is told to. */
export function fakeTailscale(t, { version = "1.98.0\n  tailscale commit: abc\n", status, exit = 0, script } = {}) {
  const folder = temporaryFolder(t);
  fs.writeFileSync(path.join(folder, "version"), version);
  fs.writeFileSync(path.join(folder, "status"), typeof status === "object" ? JSON.stringify(status) : (status ?? ""));
  const body = script ?? `case "$1" in
version) exec /bin/cat "${folder}/version" ;;
status) [ "$*" = "status --json --peers=false" ] || exit 64; /bin/cat "${folder}/status"; exit ${exit} ;;
*) exit 64 ;;
esac`;
  fs.writeFileSync(path.join(folder, "tailscale"), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  return folder;
}

export const state = (BackendState, more = {}) => ({ BackendState, TUN: true, Self: { TailscaleIPs: ["127.0.0.1", "::1"] }, ...more });
export const userspace = () => state("Running", { TUN: false, Self: { TailscaleIPs: ["100.64.7.7"] } });

export class Proxy {
  seen = []; // [kind, target]
  routes = new Map(); // host:port as asked for -> loopback port

  static async start(t) {
    const proxy = new Proxy();
    proxy.server = http.createServer((request, response) => proxy.#forward(request, response));
    proxy.server.on("connect", (request, socket) => proxy.#tunnel(request, socket));
    proxy.server.listen(0, "127.0.0.1");
    await once(proxy.server, "listening");
    proxy.address = `http://127.0.0.1:${proxy.server.address().port}`;
    t.after(() => {
      proxy.server.close();
      proxy.server.closeAllConnections();
    });
    return proxy;
  }

  #forward(request, response) {
    if (!/^http:/.test(request.url)) return response.writeHead(400).end("absolute form only");
    const { host, pathname, search } = new URL(request.url);
    this.seen.push(["absolute", host]);
    const port = this.routes.get(host);
    const fail = () => response.writeHead(502).end("no way");
    if (!port) return fail();
    const { method, headers } = request;
    const onward = http.request({ host: "127.0.0.1", port, method, headers, path: pathname + search }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on("error", fail);
    request.pipe(onward);
  }

  #tunnel(request, socket) {
    this.seen.push(["connect", request.url]);
    socket.on("error", () => {});
    const port = this.routes.get(request.url);
    if (!port) return socket.end("HTTP/1.1 502 Bad Gateway\r\n\r\n");
    const onward = net.connect(port, "127.0.0.1", () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.pipe(onward).pipe(socket);
    });
    onward.on("error", () => socket.destroy());
    socket.on("close", () => onward.destroy());
  }
}
