//! What the provider costs while nothing happens: a hundred Bots, an open stream, heartbeats.

use std::thread::sleep;
use std::time::Duration;

use crate::child::mib;
use crate::provider::{self, Provider};
use crate::service::Service;
use crate::stats::{Table, float, progress, say, verdict};
use crate::{Options, Result, server, sync};

const BOTS: usize = 100;
const ROWS: u64 = 9;
const TEXT: usize = 300;
/// Until what the start began is over: the index is written, threads that wrote it have ended, the pages' connections are closed.
const SETTLE: Duration = Duration::from_secs(45);

/// What wakes the provider while nobody says anything.
const TIMERS: &str = "
What wakes it: the service's heartbeat (every 10 s); the look at the sign-in file with the list of the Bots (every 30 s: a timer, a file read on a
thread of its own, a request, its answer). The watchdog of the stream and the end of idle connections are deadlines that these move.";

pub(crate) fn run(options: &Options, service: &mut Service) -> Result<()> {
    let set = format!("list-{BOTS}-{ROWS}-{TEXT}");
    service.warm(&set)?;
    let text: u64 =
        (0..BOTS).flat_map(|bot| server::transcript(bot, ROWS, TEXT)).map(|row| row.text.len() as u64).sum();
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    provider::sign_in(&data)?;
    let mut provider = Provider::start(&data, &service.base(&set))?;
    provider.until(&sync::heads(BOTS, |bot| server::transcript(bot, ROWS, TEXT)))?;
    progress(&format!("idle for {} s", options.idle));
    sleep(SETTLE);
    let before = provider.process.usage()?;
    sleep(Duration::from_secs(options.idle as u64));
    let after = provider.process.usage()?;
    provider.quit()?;
    let minutes = float(options.idle as u64) / 60.0;
    let (cpu, sleeps) =
        ((after.cpu - before.cpu) / minutes, float(after.sleeps.saturating_sub(before.sleeps)) / minutes);
    let resident = mib(after.resident.saturating_sub(text));
    let mut table = Table::new(&["idle, 100 Bots, an open stream", "must be", "measured", ""]);
    table.row(&["CPU a minute", "≤ 15 ms", &format!("{cpu:.2} ms"), verdict(cpu, 15.0)]);
    table.row(&["times it went to sleep a minute, all threads that live", "–", &format!("{sleeps:.1}"), ""]);
    table.row(&["resident beyond the texts", "≤ 12 MiB", &format!("{resident:.1} MiB"), verdict(resident, 12.0)]);
    table.print(&format!("Idle for {} s", options.idle));
    say(TIMERS);
    Ok(())
}
