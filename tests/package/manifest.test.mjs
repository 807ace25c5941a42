import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { test } from 'node:test';
import { PUBLIC_KEYS, problems } from './rules.mjs';

const root = new URL('../../', import.meta.url);
const read = (path) => readFileSync(new URL(path, root), 'utf8');
const manifest = JSON.parse(read('package.json'));
const clone = () => structuredClone(manifest);

/** Every key anywhere in a value. */
function* keys(value) {
  if (value === null || typeof value !== 'object') return;
  for (const [key, inner] of Object.entries(value)) {
    if (!Array.isArray(value)) yield key;
    yield* keys(inner);
  }
}

test('the manifest holds what the public protocol fixes', () => {
  assert.deepEqual(problems(manifest), []);
});

test('the rules find what they are there for', () => {
  const wrong = [
    ['an id with a capital', (m) => (m.id = 'Grok-Bot')],
    ['an id of 41 characters', (m) => (m.id = 'g'.repeat(41))],
    ['a display name of 41 characters', (m) => (m.displayName = '名'.repeat(41))],
    ['a display name over two lines', (m) => (m.displayName = 'a\nb')],
    ['an invisible display name', (m) => (m.displayName = '  ')],
    ['no version', (m) => delete m.version],
    ['a command of 4,001 characters', (m) => (m.contributes.recordProviders[0].command = 'x'.repeat(4001))],
    ['a command over two lines', (m) => (m.contributes.recordProviders[0].command = 'a\nb')],
    ['two of one id', (m) => m.contributes.resources.push(m.contributes.resources[0])],
    ['a button of 11 characters', (m) => (m.contributes.resources[0].items.button.text = '绑'.repeat(11))],
    ['a file outside', (m) => m.files.push('../secret')],
    ['an absolute file', (m) => m.files.push('/etc/passwd')],
  ];
  for (const [why, change] of wrong) {
    const changed = clone();
    change(changed);
    assert.notDeepEqual(problems(changed), [], why);
  }
  // Lengths count characters, not UTF-16 units.
  const emoji = clone();
  emoji.displayName = '🤖'.repeat(40);
  assert.deepEqual(problems(emoji), []);
});

test('it is grok-bot 0.5.0 for the preview channel alone, in every place that says so', () => {
  assert.equal(manifest.id, 'grok-bot');
  assert.equal(manifest.version, '0.5.0');
  assert.deepEqual(manifest.channels, ['preview']);
  assert.match(read('Cargo.toml'), /^version = "0\.5\.0"$/m);
  assert.match(read('src/host/wire.rs'), /PLUGIN_ID: &str = "grok-bot"/);
  assert.match(read('CHANGELOG.md'), /^## 0\.5\.0/m);
});

test('there is no agent, no session command and no setting that chooses Bots', () => {
  for (const key of PUBLIC_KEYS) assert.ok(!(key in manifest.contributes), key);
  assert.deepEqual(Object.keys(manifest.contributes).sort(), ['recordProviders', 'resources']);
  const forbidden = /^(agents?|commands|settings?|configuration|options?|enum|select(ion)?|choices?|bots?)$/i;
  assert.deepEqual([...keys(manifest)].filter((key) => forbidden.test(key)), []);
});

test('one provider with its command, one resource with a sign-in and one button a Bot, one view', () => {
  const { recordProviders, resources } = manifest.contributes;
  assert.equal(recordProviders.length, 1);
  assert.equal(resources.length, 1);
  const [provider] = recordProviders;
  const [resource] = resources;
  assert.match(provider.command, /coda-grok-bot serve$/);
  assert.equal(provider.protocol, 'coda/session@1');
  assert.deepEqual(provider.views, [{ id: 'bind', opening: '正在发绑定指令…', done: '已发给 Bot' }]);
  assert.equal(resource.provider, provider.id);
  assert.deepEqual(resource.items.button, { text: '绑定', view: 'bind' });
});

test('what the manifest says and what the provider says are the same words', () => {
  const texts = read('src/host/texts.rs');
  assert.ok(texts.includes(`BIND_BUTTON: &str = "${manifest.contributes.resources[0].items.button.text}"`));
  assert.ok(texts.includes(`BIND_SENT: &str = "${manifest.contributes.recordProviders[0].views[0].done}"`));
});

test('every file of the plugin but the binary is in the repository', () => {
  for (const file of manifest.files) {
    assert.ok(file.startsWith('bin/') || existsSync(new URL(file, root)), file);
  }
});

test('every relative link of a document that is shipped leads to what is shipped', () => {
  const { files } = manifest;
  // A file, one in a folder that is shipped, or a folder of which something is.
  const shipped = (path) => files.some((file) => file === path || path.startsWith(`${file}/`) || file.startsWith(`${path}/`));
  const documents = files.filter((file) => file.endsWith('.md'));
  assert.ok(documents.length > 8, `only ${documents.length} documents`);
  const dead = [];
  let links = 0;
  for (const document of documents) {
    const text = read(document).replace(/^```[\s\S]*?^```/gm, '');
    const targets = [
      ...[...text.matchAll(/\]\(([^)\s]+)[^)]*\)/g)].map(([, target]) => target),
      ...[...text.matchAll(/^\[[^\]]+\]:\s*(\S+)/gm)].map(([, target]) => target),
      ...[...text.matchAll(/\b(?:src|srcset|href)="([^"\s]+)"/g)].map(([, target]) => target),
    ];
    for (const target of targets) {
      if (/^(?:[a-z][a-z+.-]*:|#)/i.test(target)) continue;
      links += 1;
      const path = posix.join(posix.dirname(document), target.replace(/#.*$/, '')).replace(/\/$/, '');
      if (!shipped(path) || !existsSync(new URL(path, root))) dead.push(`${document}: ${target}`);
    }
  }
  assert.ok(links > 30, `only ${links} links`);
  assert.deepEqual(dead, []);
});
