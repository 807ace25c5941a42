import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (path) => readFileSync(join(root, path), 'utf8');

/** Every file under a folder that a test may be written in, or of other kinds. */
function* sources(folder, kinds = /\.(rs|mjs)$/) {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory() && entry.name !== 'node_modules') yield* sources(path, kinds);
    else if (entry.isFile() && kinds.test(entry.name)) yield path;
  }
}

const documents = [
  'README.md', 'README.zh-CN.md', 'ARCHITECTURE.md', 'CHANGELOG.md',
  ...readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
];

test('every test that a document names exists', () => {
  const code = [...sources('src'), ...sources('tests')].map(read).join('\n');
  const named = new Map();
  for (const document of documents) {
    for (const [, name] of read(document).matchAll(/`([a-z][a-z0-9]*(?:_[a-z0-9]+){3,})`/g)) named.set(name, document);
  }
  assert.ok(named.size > 30, `only ${named.size} tests are named`);
  const missing = [...named].filter(([name]) => !code.includes(`fn ${name}(`));
  assert.deepEqual(missing, []);
});

test('every row of the faults has a test that exists, and every sentence that it quotes is in the sources', () => {
  const tests = [...sources('src'), ...sources('tests')].map(read).join('\n');
  const names = new Set([
    ...[...tests.matchAll(/^\s*(?:async )?fn (\w+)\(/gm)].map(([, name]) => name),
    ...[...tests.matchAll(/^\s*(?:test|it)\((["'`])(.+?)\1,/gm)].map(([, , name]) => name.replaceAll("\\'", "'")),
  ]);
  const said = [...sources('src', /\.(rs|js)$/), 'remote/coda-bot.mjs'].map(read).join('\n');
  const rows = read('docs/faults.md').split('\n').filter((line) => /^\| (?!fault \||---)/.test(line));
  assert.ok(rows.length >= 60, `${rows.length} rows`);
  assert.equal(new Set(rows).size, rows.length);
  for (const row of rows) {
    const cells = row.slice(2, -2).split(' | ');
    assert.equal(cells.length, 4, row);
    const [, , seen, shown] = cells;
    const named = [...shown.matchAll(/`([^`]+)`/g)].map(([, name]) => name);
    assert.ok(named.length > 0, `no test: ${row}`);
    assert.deepEqual(named.filter((name) => !names.has(name)), [], row);
    assert.equal(shown.replace(/`[^`]+`|, /g, ''), '', `more than tests: ${row}`);
    // `…` stands for what differs; a word or two between two of them proves nothing.
    const pieces = [...seen.matchAll(/“([^”]+)”/g)].flatMap(([, sentence]) => sentence.split(/ ?… ?/)).map((piece) => piece.trim());
    assert.deepEqual(pieces.filter((piece) => piece.length > 2 && !said.includes(piece)), [], row);
  }
});

test('every room of src has its place on the map', () => {
  const map = read('ARCHITECTURE.md');
  const onMap = [...map.matchAll(/^### `(\w+)`$/gm)].map(([, room]) => room);
  const rooms = readdirSync(join(root, 'src'))
    .map((name) => name.replace(/\.rs$/, ''))
    .filter((name) => !['lib', 'main'].includes(name));
  assert.deepEqual(rooms.filter((room) => !onMap.includes(room)), []);
});

test('links inside the repository lead somewhere', () => {
  for (const document of documents) {
    for (const [, target] of read(document).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      assert.ok(existsSync(join(root, dirname(document), target)), `${document}: ${target}`);
    }
  }
});

test('files and folders that documents name exist', () => {
  // Written with a slash, in code: src/…, scripts/…, tests/…, docs/…, remote/…, schemas/….
  const path = /`\.?\/?((?:src|scripts|tests|docs|remote|schemas)\/[\w./-]*)`/g;
  for (const document of documents) {
    for (const [, name] of read(document).matchAll(path)) {
      assert.ok(existsSync(join(root, name)), `${document}: ${name}`);
      if (name.endsWith('/')) assert.ok(statSync(join(root, name)).isDirectory(), `${document}: ${name}`);
    }
  }
});

test('both READMEs show the same commands', () => {
  const commands = (document) => [...read(document).matchAll(/^(?:\$ )?((?:cargo|node|\.\/scripts|coda-grok-bot) .*?)(?: +#.*)?$/gm)].map(([, line]) => line.trim());
  assert.deepEqual(commands('README.md'), commands('README.zh-CN.md'));
});

test('the Routine template is the same wherever it stands', () => {
  const skill = read('remote/SKILL.md');
  const [, chinese] = skill.match(/### 中文\n\n((?:>.*\n)+)/);
  const [, english] = skill.match(/### English\n\n((?:>.*\n?)+)/);
  assert.ok(read('README.zh-CN.md').includes(chinese.trim()));
  assert.ok(read('README.md').includes(english.trim()));
});

test('every direct dependency has its reason', () => {
  const [, section] = read('Cargo.toml').match(/\n\[dependencies\]\n([^[]*(?:\[[^\]\n]*\][^[]*)*?)\n\[dev-dependencies\]/);
  const names = [...section.matchAll(/^([a-z][\w-]*) = /gm)].map(([, name]) => name);
  assert.ok(names.length > 20);
  const text = read('docs/dependencies.md');
  assert.deepEqual(names.filter((name) => !text.includes(`\`${name}\``)), []);
});

test('the contract names the namespace of the code and every word of an error', () => {
  const text = read('docs/host-contract.md');
  const [, hex] = read('src/host/convert.rs').match(/POST_NAMESPACE: Uuid = Uuid::from_u128\(0x([0-9a-f_]+)\)/);
  const [, a, b, c, d, e] = hex.replaceAll('_', '').match(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/);
  assert.ok(text.includes(`\`${[a, b, c, d, e].join('-')}\``));
  const words = [...read('src/host/wire.rs').match(/enum ErrorKind \{([\s\S]*?)\n\}/)[1].matchAll(/^ {4}([A-Z]\w+),/gm)]
    .map(([, name]) => name.replace(/(?<=.)[A-Z]/g, (letter) => `_${letter}`).toLowerCase());
  assert.ok(words.length > 10);
  assert.deepEqual(words.filter((word) => !text.includes(`\`${word}\``)), []);
});

test('the table of imports is the one that the sources are held to', () => {
  const [, rules] = read('tests/it/architecture.rs').match(/const MAY[^=]*=\s*&\[([\s\S]*?)\n\];/);
  const held = [...rules.matchAll(/\(\s*"(\w+)",\s*&\[([^\]]*)\]/g)].map(([, room, may]) => [room, (may.match(/\w+/g) ?? []).join(', ')]);
  const written = [...read('ARCHITECTURE.md').matchAll(/^\| `(\w+)` \| ([\w, ]+) \|$/gm)].map(([, room, may]) => [room, may === 'nothing' ? '' : may]);
  assert.ok(held.length > 10);
  assert.deepEqual(written, held);
});
