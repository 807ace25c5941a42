// The shortest honest mirror on Node alone: its own fetch, JSON.parse, Buffer.
//
//   node mirror.mjs BASE [ROWS]     reads the lists to their ends; with ROWS, so many rows of the stream. Says `ready ROWS` and waits for its stdin's end.

const [base, wanted] = process.argv.slice(2);

/** By Bot: its entries by id, and their ids by place. */
const records = new Map();

function keep(agentId, entries) {
  let record = records.get(agentId);
  if (!record) records.set(agentId, (record = { byId: new Map(), order: [] }));
  for (const entry of entries) {
    const body = JSON.parse(Buffer.from(entry.body, 'base64').toString());
    const text = body.kind === 'message' ? body.content : body.message?.content;
    if (text === undefined) continue;
    const [seq, number] = [BigInt(entry.seq), BigInt(entry.updatedSeq)];
    const known = record.byId.get(body.id);
    if (known && known.number >= number) continue;
    if (!known) record.order.push(body.id);
    record.byId.set(body.id, { id: body.id, seq, number, role: body.role, at: body.timestampMs, text });
  }
}

function sort(record) {
  record.order.sort((a, b) => {
    const [one, two] = [record.byId.get(a).seq, record.byId.get(b).seq];
    return one < two ? -1 : one > two ? 1 : 0;
  });
}

async function post(method, type, body) {
  const answer = await fetch(`${base}/aiserver.v1.GrokBotService/${method}`, { method: 'POST', headers: { 'content-type': type }, body });
  if (!answer.ok) throw new Error(`${method}: ${answer.status}`);
  return answer;
}

const unary = async (method, request) => (await post(method, 'application/json', JSON.stringify(request))).json();

function envelope(request) {
  const payload = Buffer.from(JSON.stringify(request));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(payload.length, 1);
  return Buffer.concat([head, payload]);
}

/** The payloads of a stream. */
async function* frames(answer) {
  let rest = Buffer.alloc(0);
  for await (const chunk of answer.body) {
    rest = rest.length ? Buffer.concat([rest, chunk]) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    let at = 0;
    while (rest.length - at >= 5) {
      const length = rest.readUInt32BE(at + 1);
      if (rest.length - at - 5 < length) break;
      yield JSON.parse(rest.subarray(at + 5, at + 5 + length).toString());
      at += 5 + length;
    }
    rest = rest.subarray(at);
  }
}

let read = 0;
if (wanted === undefined) {
  const { agents } = await unary('ListGrokBotAgents', {});
  for (const { agentId } of agents) {
    for (let beforeSeq; ; ) {
      const { entries = [] } = await unary('ListGrokBotTranscriptEntries', { agentId, beforeSeq, limit: 500 });
      keep(agentId, entries);
      read += entries.length;
      if (entries.length < 500) break;
      beforeSeq = entries.at(-1).seq;
    }
    if (records.has(agentId)) sort(records.get(agentId));
  }
} else {
  const request = envelope({ cursors: [], includeUnlistedAgents: true, inlineBodyMaxBytes: 262144 });
  for await (const { rows } of frames(await post('WatchGrokBotTranscripts', 'application/connect+json', request))) {
    if (!rows) continue;
    keep(rows.agentId, rows.entries);
    read += rows.entries.length;
    if (read >= Number(wanted)) break;
  }
}
console.log(`ready ${read}`);
process.stdin.resume().on('end', () => process.exit(0));
