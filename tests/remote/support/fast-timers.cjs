// Loaded into the client ahead of it: its clock runs TEST_SPEED times as fast, so
// that limits of a minute can be tested without a minute, and without a hook for
// tests in a program that people have to trust.
const real = globalThis.setTimeout;
globalThis.setTimeout = (run, delay, ...args) => real(run, delay / Number(process.env.TEST_SPEED), ...args);
