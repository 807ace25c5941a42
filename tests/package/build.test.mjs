import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { problems } from './rules.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const out = mkdtempSync(join(tmpdir(), 'grok-bot-dist-'));
after(() => rmSync(out, { recursive: true, force: true }));

/** The debug binary: the one that the caller names, else built. */
const binary = process.env.CODA_GROK_BOT_BINARY;
const build = (...more) => {
  const from = binary ? ['--binary', binary] : ['--debug'];
  return spawnSync('node', ['scripts/build-plugin.mjs', ...from, '--out', out, ...more], { cwd: root, encoding: 'utf8' });
};

test('the plugin is built, started once as Coda would, and whole', () => {
  const done = build();
  assert.equal(done.status, 0, done.stderr);
  assert.match(done.stdout, /started once as Coda would/);
  const plugin = join(out, 'grok-bot');
  const manifest = JSON.parse(readFileSync(join(plugin, 'package.json'), 'utf8'));
  assert.deepEqual(problems(manifest), []);
  assert.deepEqual([manifest.os, manifest.cpu], [[process.platform], [process.arch]]);
  for (const file of manifest.files) assert.ok(existsSync(join(plugin, file)), file);
  assert.equal(statSync(join(plugin, 'bin/coda-grok-bot')).mode & 0o111, 0o111);
  for (const file of ['remote/coda-bot.mjs', 'remote/SKILL.md']) {
    assert.equal(readFileSync(join(plugin, file), 'utf8'), readFileSync(join(root, file), 'utf8'), file);
  }
  const archive = join(out, `grok-bot-0.5.0-${process.platform}-${process.arch}.tgz`);
  const listed = spawnSync('tar', ['-tzf', archive], { encoding: 'utf8' }).stdout.split('\n');
  for (const file of ['package.json', ...manifest.files]) {
    const folder = statSync(join(plugin, file)).isDirectory();
    assert.ok(listed.includes(`grok-bot/${file}${folder ? '/' : ''}`), file);
  }
});

test('a binary that does not speak the contract is no plugin', () => {
  const done = spawnSync('node', ['scripts/build-plugin.mjs', '--binary', '/bin/sh', '--out', join(out, 'wrong')], { cwd: root, encoding: 'utf8' });
  assert.notEqual(done.status, 0);
});
