// What Coda's public protocol 1.0.0 fixes for every plugin manifest (its schemas common.json, commands.json, capabilities.json and agents.json), as
// far as this manifest can touch it. The rest of the manifest is assumed: docs/host-contract.md lists it.

/** An id: a contribution, a view, a command. */
export const ID = /^[a-z][a-z0-9-]{0,39}$/;
/** A longer name: a capability. */
export const NAME = /^[a-z][a-z0-9-]{0,63}$/;
/** One line with something to see on it. */
const LINE = /^(?=.*\S)[^\u0000\r\n]*$/;

/** Whether `text` is one line of at most `most` characters (Unicode scalar values, as JSON Schema counts). */
export const isLine = (text, most) => typeof text === 'string' && LINE.test(text) && [...text].length <= most;
/** Whether `text` is a command: one line that `sh` runs. */
export const isCommand = (text) => isLine(text, 4000);

/** The contribution keys whose form the public protocol fixes, and that this plugin leaves to it: a wrong guess at one would make the manifest invalid. */
export const PUBLIC_KEYS = [
  'agents', 'capabilities', 'commands', 'composer-modes', 'composerModes', 'configuration', 'endpoints', 'environment', 'events', 'executors',
  'extension-points', 'extensionPoints', 'extensions', 'git-credentials', 'gitCredentials', 'groups', 'instructions', 'mcp-servers', 'mcpServers',
  'model-providers', 'modelProviders', 'path', 'repositories', 'services', 'setting', 'settings', 'setup', 'skills', 'views',
];

/** Every problem that the public rules find in a manifest, as sentences; an empty list is a lawful one. */
export function problems(manifest) {
  const found = [];
  const want = (good, what) => good || found.push(what);
  want(ID.test(manifest.id), 'the plugin id');
  want(NAME.test(manifest.name), 'the package name');
  want(isLine(manifest.displayName, 40), 'the display name');
  want(/^\d+\.\d+\.\d+$/.test(manifest.version), 'the version');
  for (const [key, list] of Object.entries(manifest.contributes ?? {})) {
    want(Array.isArray(list), `contributes.${key} is no list`);
    const ids = new Set();
    for (const item of Array.isArray(list) ? list : []) {
      want(ID.test(item.id), `an id in contributes.${key}: ${item.id}`);
      want(!ids.has(item.id), `the id ${item.id} twice in contributes.${key}`);
      ids.add(item.id);
      want(isLine(item.displayName, 40), `a display name in contributes.${key}`);
      if ('command' in item) want(isCommand(item.command), `a command in contributes.${key}`);
      for (const view of item.views ?? []) {
        want(ID.test(view.id), `a view's id: ${view.id}`);
        want(isLine(view.opening, 40) && isLine(view.done, 40), `a text of the view ${view.id}`);
      }
      if (item.signIn) {
        want(isLine(item.signIn.title, 40), 'the sign-in\'s title');
        want(isLine(item.signIn.note, 100), 'the sign-in\'s note');
      }
      if (item.items) want(isLine(item.items.button.text, 10), 'a button\'s text');
    }
  }
  for (const file of manifest.files ?? []) {
    // Inside the plugin: relative, no way up, no way round.
    want(isLine(file, 1000) && !file.startsWith('/') && !file.split('/').includes('..'), `the file ${file}`);
  }
  return found;
}
