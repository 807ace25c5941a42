// The shortest honest mirror on the official client's stack: generated descriptors, a Connect transport, JSON as the wire has it.
//
//   node mirror.mjs BASE [ROWS]     reads the lists to their ends; with ROWS, so many rows of the stream. Says `ready ROWS` and waits for its stdin's end.

import { createClient } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-node';

import { GrokBotService } from './grok_pb.js';

const [baseUrl, wanted] = process.argv.slice(2);
const transport = createConnectTransport({ baseUrl, httpVersion: '1.1', useBinaryFormat: false });
const client = createClient(GrokBotService, transport);
const decoder = new TextDecoder();

/** By Bot: its entries by id, and their ids by place. */
const records = new Map();

function keep(agentId, entries) {
  let record = records.get(agentId);
  if (!record) records.set(agentId, (record = { byId: new Map(), order: [] }));
  for (const entry of entries) {
    const body = JSON.parse(decoder.decode(entry.body));
    const text = body.kind === 'message' ? body.content : body.message?.content;
    if (text === undefined) continue;
    const known = record.byId.get(body.id);
    if (known && known.number >= entry.updatedSeq) continue;
    if (!known) record.order.push(body.id);
    record.byId.set(body.id, { id: body.id, seq: entry.seq, number: entry.updatedSeq, role: body.role, at: body.timestampMs, text });
  }
}

function sort(record) {
  record.order.sort((a, b) => {
    const [one, two] = [record.byId.get(a).seq, record.byId.get(b).seq];
    return one < two ? -1 : one > two ? 1 : 0;
  });
}

let read = 0;
if (wanted === undefined) {
  const { agents } = await client.listGrokBotAgents({});
  for (const { agentId } of agents) {
    for (let beforeSeq; ; ) {
      const { entries } = await client.listGrokBotTranscriptEntries({ agentId, beforeSeq, limit: 500 });
      keep(agentId, entries);
      read += entries.length;
      if (entries.length < 500) break;
      beforeSeq = entries.at(-1).seq;
    }
    if (records.has(agentId)) sort(records.get(agentId));
  }
} else {
  for await (const { frame } of client.watchGrokBotTranscripts({ includeUnlistedAgents: true, inlineBodyMaxBytes: 262144 })) {
    if (frame.case !== 'rows') continue;
    keep(frame.value.agentId, frame.value.entries);
    read += frame.value.entries.length;
    if (read >= Number(wanted)) break;
  }
}
console.log(`ready ${read}`);
process.stdin.resume().on('end', () => process.exit(0));
