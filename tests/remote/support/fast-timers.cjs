// Loaded into the client ahead of it: its clock runs TEST_SPEED times as fast, so
// that limits of a minute can be tested without a minute, and without a hook for
// tests in a program that people have to trust.
const childProcess = require("node:child_process");

const speed = Number(process.env.TEST_SPEED);
const { setTimeout } = globalThis;
const { execFile } = childProcess;
globalThis.setTimeout = (run, delay, ...args) => setTimeout(run, delay / speed, ...args);
childProcess.execFile = (program, args, options, done) => execFile(program, args, { ...options, timeout: options.timeout / speed }, done);
