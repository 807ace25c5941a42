// A new user's first hour: an empty folder, the two files, and the message that
// Coda sends. And: what SKILL.md promises is what the program does.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { Coda } from "./support/coda.mjs";
import { CLIENT, Mcp, NODE, RECORD_A, SKILL, assertNoToken, bound, newHome, temporaryFolder } from "./support/run.mjs";
import { fakeTailscale, state } from "./support/tailnet.mjs";

const skill = fs.readFileSync(SKILL, "utf8");

/** A command line, taken literally, in a shell. */
async function shell(command, cwd, env) {
  const child = spawn("/bin/sh", ["-c", command], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (output += text));
  const [code] = await once(child, "close");
  assertNoToken(output);
  return { code, output };
}

test("two files in an empty folder, the message taken literally, and the Bot is at work", async (t) => {
  const coda = await Coda.start(t);
  const folder = temporaryFolder(t);
  for (const file of [CLIENT, SKILL]) fs.copyFileSync(file, path.join(folder, path.basename(file)));
  const tools = fakeTailscale(t, { status: state("Running") });
  fs.symlinkSync(NODE, path.join(tools, "node"));
  const env = { PATH: `${tools}:/usr/bin:/bin`, HOME: folder };

  const [, netCommand] = /^(node coda-bot\.mjs net)$/m.exec(skill);
  assert.equal((await shell(netCommand, folder, env)).code, 0);

  const message = `Run the command below in the folder that holds coda-bot.mjs.\nnode coda-bot.mjs bind ${coda.address} ${coda.issueCode(RECORD_A)}`;
  const bind = await shell(message.split("\n").at(-1), folder, env);
  assert.equal(bind.code, 0, bind.output);
  assert.ok(fs.existsSync(path.join(folder, ".coda-bot", "bindings.json")));

  // The example without an MCP client, copied from the page.
  const [, example] = /```sh\n(printf [\s\S]*?)```/.exec(skill);
  const called = await shell(example, folder, env);
  const answers = called.output.trim().split("\n").map((line) => JSON.parse(line));
  assert.deepEqual(answers.map(({ id }) => id), [1, 2]);
  assert.equal(answers[1].result.structuredContent.params.name, "coda_machines");

  // The line that bind prints starts the server, whatever folder one is in.
  const [, start] = /MCP server: (.+)/.exec(bind.output);
  const started = await shell(`echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | ${start}`, "/", env);
  assert.deepEqual(JSON.parse(started.output), { jsonrpc: "2.0", id: 1, result: {} });
});

test("a printed command survives the shell, whatever the record is called", async (t) => {
  const coda = await Coda.start(t);
  const home = newHome(t);
  const record = "grok-bot:0:it's $(touch x) `y` (z)!*";
  const { stdout } = await bound(coda, home, record);
  const [, start] = /MCP server: (.+)/.exec(stdout);
  const folder = temporaryFolder(t);
  const env = { PATH: `${path.dirname(NODE)}:/usr/bin:/bin`, CODA_BOT_HOME: home, HOME: folder };
  const started = await shell(`echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | ${start}`, folder, env);
  assert.equal(JSON.parse(started.output).id, 1);
  assert.deepEqual(fs.readdirSync(folder), []);
});

test("SKILL.md has front matter, an example for every tool, and configurations that are JSON", async (t) => {
  const [, name, description] = /^---\nname: ([a-z0-9-]{1,64})\ndescription: (.{1,1024})\n---\n/.exec(skill);
  assert.equal(name, "coda-bot");
  assert.ok(!/[<>]/.test(description));
  const coda = await Coda.start(t);
  const home = newHome(t);
  await bound(coda, home);
  const mcp = new Mcp(t, home);
  await mcp.initialize();
  const { tools } = (await mcp.request(1, "tools/list")).result;
  const examples = [...skill.matchAll(/^\| `(coda_\w+)` \| .*?\| `(\{.*\})` \|$/gm)].map(([, tool, args]) => [tool, JSON.parse(args)]);
  assert.deepEqual(examples.map(([tool]) => tool), tools.map((tool) => tool.name));
  for (const [tool, args] of examples) {
    const { properties } = tools.find((each) => each.name === tool).inputSchema;
    for (const argument of Object.keys(args)) assert.ok(properties[argument], `${tool} has no ${argument}`);
    assert.ok(!(await mcp.call(tool, tool, args)).result.isError);
  }
  const configurations = [...skill.matchAll(/```json\n([\s\S]*?)```/g)].map(([, text]) => JSON.parse(text));
  assert.deepEqual(configurations.map(({ mcpServers }) => Object.keys(mcpServers).length), [1, 2]);
});
