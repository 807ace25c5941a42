// The program itself: the simulated service, the preview, and their ends.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { TOKEN, judge } from "../../judge.mjs";

export const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const PROGRAM = process.env.CODA_GROK_BOT_BINARY ?? join(ROOT, "target/debug/coda-grok-bot");

/** Every program of this process, with what it printed. */
const runs = [];

/** Starts a command and waits until its output has what `pattern` finds. */
export async function run(args, pattern, env = {}) {
  const child = spawn(PROGRAM, args, { env: { ...process.env, GROK_BOT_TEST: "1", ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const exited = once(child, "exit");
  let output = "";
  let errors = "";
  child.stderr.on("data", (part) => (errors += part));
  const found = new Promise((resolve, reject) => {
    child.stdout.on("data", (part) => {
      output += part;
      const match = pattern.exec(output);
      if (match) resolve(match);
    });
    exited.then(([code]) => reject(new Error(`${args.join(" ")} ended with ${code}: ${errors}`)));
  });
  runs.push({ args, env, output: () => output, errors: () => errors });
  const end = async (signal = "SIGTERM") => {
    child.kill(signal);
    const [code] = await exited;
    assert.doesNotMatch(output + errors, TOKEN, "a token was printed");
    assert.ok(!errors.includes(/#key=([0-9a-f]{64})/.exec(output)?.[1] ?? "#key="), "the page's key is in the log");
    return code;
  };
  const match = await found;
  return { match, end, output: () => output, errors: () => errors };
}

const LINK = /http:\/\/127\.0\.0\.1:(\d+)\/#key=[0-9a-f]{64}/;

/** `preview`; `link` is the page's. */
export async function preview(args = [], env = {}) {
  const program = await run(["preview", ...args], LINK, env);
  return { ...program, link: program.match[0], port: program.match[1] };
}

/** `simulate`, with a way to steer it. */
export async function simulate() {
  const program = await run(["simulate", "--still"], /GROK_BOT_BACKEND_URL=(\S+)\nGROK_BOT_WEBSITE_URL=(\S+)\nx-control-key: (\S+)\n/);
  const [, backend, website, key] = program.match;
  const control = async (operation, body = {}) => {
    const answer = await fetch(`${backend}/control/${operation}`, { method: "POST", headers: { "x-control-key": key }, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${operation}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const ofThis = () => runs.filter(({ env }) => env.GROK_BOT_BACKEND_URL === backend);
  /** Every preview of this service is judged before the service goes. */
  const end = async (signal) => {
    const folders = new Set(ofThis().flatMap(({ args }) => (args.includes("--data-dir") ? [args[args.indexOf("--data-dir") + 1]] : [])));
    const printed = ofThis().map(({ output }) => output());
    const logged = ofThis().map(({ errors }) => errors());
    try {
      await judge(control, { printed, logged, folders: [...folders] });
    } finally {
      await program.end(signal);
    }
  };
  const text = (entry, said) => ({ id: entry, kind: "send-message", message: { type: "text", content: said } });
  return {
    ...program,
    end,
    env: { GROK_BOT_BACKEND_URL: backend, GROK_BOT_WEBSITE_URL: website },
    control,
    /** A Bot of its own for a test. */
    bot: async (name) => (await control("add-bot", { name })).agent,
    /** The Bot says something, whole. */
    say: (agent, entry, said) => control("apply", { agent, changes: [{ type: "add", body: text(entry, said) }] }),
    resay: (agent, entry, said) => control("apply", { agent, changes: [{ type: "edit", entryId: entry, body: text(entry, said) }] }),
    /** Many rows at once, untold: they were there before. */
    fill: (agent, count) => {
      const changes = Array.from({ length: count }, (_, n) => ({ type: "add", body: text(`f${n + 1}`, `第 ${n + 1} 条`) }));
      return control("apply", { agent, changes, silently: true });
    },
  };
}

export async function folder(t) {
  const path = await mkdtemp(join(tmpdir(), "coda-grok-bot-test-"));
  t.after(() => rm(path, { recursive: true, force: true }));
  return path;
}
