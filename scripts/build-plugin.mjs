#!/usr/bin/env node
// Builds the installable plugin for this platform into dist/ and starts it once as Coda would.
//
//   node scripts/build-plugin.mjs [--debug] [--binary FILE] [--out DIR]
//
// --debug takes the debug binary (quick), --binary one that is built already. The result: DIR/grok-bot/ and DIR/grok-bot-<version>-<platform>.tgz.
// Linux and macOS alike: nothing here asks which of them it is, but to name it.

import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = resolve(dirname(fileURLToPath(import.meta.url)), '..');
// Node's words for the platform; the program uses the same (src/platform.rs), and the check below compares them.
const PLATFORM = `${process.platform}-${process.arch}`;
const BINARY = 'bin/coda-grok-bot';
/** How long the started plugin may take for each answer and for its end. */
const PATIENCE = 20_000;

function fail(message) {
  console.error(`build-plugin: ${message}`);
  process.exit(1);
}

/** Builds the binary and gives its path. */
function build(debug) {
  const args = ['build', '--locked', '--no-default-features', '--bin', 'coda-grok-bot', '--message-format=json-render-diagnostics', ...(debug ? [] : ['--release'])];
  const done = spawnSync('cargo', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 28 });
  if (done.status !== 0) fail('cargo build failed');
  // The path comes from cargo: a target folder may lie anywhere.
  const built = done.stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  return built.findLast((message) => message.executable)?.executable ?? fail('cargo named no executable');
}

function pack(binary, out) {
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  const plugin = join(out, manifest.id);
  rmSync(plugin, { recursive: true, force: true });
  for (const file of manifest.files) {
    const to = join(plugin, file);
    mkdirSync(dirname(to), { recursive: true });
    cpSync(file === BINARY ? binary : join(ROOT, file), to, { recursive: true });
  }
  chmodSync(join(plugin, BINARY), 0o755);
  // One package is for one platform: an installer that knows npm's fields refuses it elsewhere.
  const platform = { os: [process.platform], cpu: [process.arch] };
  writeFileSync(join(plugin, 'package.json'), `${JSON.stringify({ ...manifest, ...platform }, null, 2)}\n`);
  const archive = join(out, `${manifest.id}-${manifest.version}-${PLATFORM}.tgz`);
  const tar = spawnSync('tar', ['-czf', archive, '-C', out, manifest.id], { stdio: ['ignore', 'inherit', 'inherit'] });
  if (tar.status !== 0) fail('tar failed');
  return { manifest, plugin, archive };
}

/** The plugin's environment: a fresh data folder, and no address but loopback may be reached. */
function environment(data) {
  const nobody = { GROK_BOT_TEST: '1', GROK_BOT_BACKEND_URL: 'http://127.0.0.1:9', GROK_BOT_WEBSITE_URL: 'http://127.0.0.1:9' };
  return { ...process.env, CODA_PLUGIN_DATA: data, ...nobody };
}

/** Starts the manifest's command as Coda would: by sh, in the plugin's folder, with nobody signed in. */
async function startOnce(plugin, manifest) {
  const data = join(mkdtempSync(join(tmpdir(), 'grok-bot-start-')), 'data');
  const env = environment(data);
  const child = spawn('sh', ['-c', manifest.contributes.recordProviders[0].command], { cwd: plugin, env, stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise((settle) => child.on('close', (code, signal) => settle(signal ?? code)));
  const late = setTimeout(() => child.kill('SIGKILL'), 3 * PATIENCE);
  const said = [];
  const waiting = new Map();
  createInterface({ input: child.stdout }).on('line', (line) => {
    // Throws where stdout carries anything but the protocol.
    const message = JSON.parse(line);
    said.push(message);
    waiting.get(message.id)?.(message);
  });
  let id = 0;
  const ask = (method, params) =>
    new Promise((settle, reject) => {
      const timer = setTimeout(() => reject(new Error(`no answer to ${method}`)), PATIENCE);
      waiting.set(++id, (message) => {
        clearTimeout(timer);
        if (message.error) reject(new Error(`${method}: ${message.error.message}`));
        else settle(message.result);
      });
      child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    });
  const want = (good, what) => {
    if (!good) throw new Error(what);
  };
  try {
    const host = { name: 'build-plugin', version: manifest.version };
    const hello = await ask('initialize', { protocolVersion: '5.7.0', host });
    want(hello.plugin.id === manifest.id && hello.plugin.version === manifest.version, `it calls itself ${JSON.stringify(hello.plugin)}`);
    const views = manifest.contributes.recordProviders[0].views.map((view) => view.id);
    want(JSON.stringify(hello.views) === JSON.stringify(views), `its views are ${hello.views}`);
    const status = await ask('resource/status', {});
    want(status.state === 'signedOut', `its state is ${status.state}`);
    const { records } = await ask('records/list', {});
    want(records.length === 0, 'it has records though nobody is signed in');
    want((await ask('shutdown', {})) === null, 'shutdown has a result');
    child.stdin.end();
    const end = await ended;
    want(end === 0, `it ended with ${end}`);
    want(said.some((message) => message.method === 'resource/changed'), 'the resource page was never told');
    want((statSync(data).mode & 0o777) === 0o700, 'its data folder is open to others');
  } finally {
    clearTimeout(late);
    child.kill('SIGKILL');
    rmSync(dirname(data), { recursive: true, force: true });
  }
}

/** The binary is one for this platform, by its own word. */
function checkPlatform(plugin) {
  const data = mkdtempSync(join(tmpdir(), 'grok-bot-doctor-'));
  const run = spawnSync(join(plugin, BINARY), ['doctor', '--json', '--data-dir', data], { env: environment(data), encoding: 'utf8' });
  rmSync(data, { recursive: true, force: true });
  let report = {};
  try {
    report = JSON.parse(run.stdout);
  } catch {
    fail(`the binary answers nothing that can be read: ${run.error?.message ?? run.stderr.trim()}`);
  }
  if (report.platform !== PLATFORM) fail(`the binary is for ${report.platform}, this is ${PLATFORM}`);
}

const options = { debug: { type: 'boolean' }, binary: { type: 'string' }, out: { type: 'string', default: 'dist' } };
const { values } = parseArgs({ options });
const out = resolve(ROOT, values.out);
const { manifest, plugin, archive } = pack(values.binary ? resolve(values.binary) : build(values.debug), out);
checkPlatform(plugin);
try {
  await startOnce(plugin, manifest);
} catch (error) {
  fail(`the plugin doesn't start as it should: ${error.message}`);
}
console.log(`${plugin}\n${archive}\nstarted once as Coda would: initialize, signed out, no records, shutdown, exit 0`);
