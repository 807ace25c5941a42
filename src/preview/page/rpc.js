// JSON-RPC 2.0 over a channel of whole texts: the host's side of one connection.

/** An error that the provider answered; `kind` is its stable word. */
export class RpcError extends Error {
  constructor({ code, message, data }) {
    super(message);
    this.code = code;
    this.kind = data?.kind ?? "internal";
    this.data = data;
  }
}

/** The connection ended before the answer came: nobody knows what became of the request. */
export class ConnectionLost extends Error {
  constructor() {
    super("connection lost");
    this.kind = "connection_lost";
  }
}

export class Peer {
  /** `onNotification(method, params)`; `onRequest(method, params)` gives a result or throws an RpcError. */
  constructor({ send, onNotification, onRequest }) {
    this.send = send;
    this.onNotification = onNotification;
    this.onRequest = onRequest;
    this.waiting = new Map();
    this.nextId = 1;
    this.closed = false;
  }

  request(method, params = {}) {
    if (this.closed) return Promise.reject(new ConnectionLost());
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  /** One text of the provider. */
  receive(text) {
    const message = JSON.parse(text);
    if (message.method === undefined) {
      const waiter = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) waiter?.reject(new RpcError(message.error));
      else waiter?.resolve(message.result);
    } else if (message.id === undefined) {
      this.onNotification(message.method, message.params ?? {});
    } else {
      this.answer(message);
    }
  }

  async answer({ id, method, params }) {
    let outcome;
    try {
      outcome = { result: await this.onRequest(method, params ?? {}) };
    } catch (error) {
      const { code = -32603, message } = error;
      outcome = { error: { code, message, ...(error.data && { data: error.data }) } };
    }
    if (!this.closed) this.send(JSON.stringify({ jsonrpc: "2.0", id, ...outcome }));
  }

  close() {
    this.closed = true;
    for (const { reject } of this.waiting.values()) reject(new ConnectionLost());
    this.waiting.clear();
  }
}
