//! A provider under load for ten minutes, and in bad weather for an hour: commands of their own, and no part of the tests.
//!
//! `cargo bench --bench load -- [--minutes 10] [--bots 200] [--rate 1000]`: rows of 200 Bots, three hosts' worth of reads, and a host that stops reading
//! for a while. `cargo bench --bench load -- soak [--minutes 60] [--bots 50] [--rate 20]`: rows, edits and deletes while the network flaps every few
//! seconds. The variable `CODA_GROK_BOT_BINARY` names the program; without it, it is the one that `cargo bench` built. docs/load.md tells the rest.

mod engine;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use engine::{Figures, Plan};

fn main() -> ExitCode {
    let done = plan(std::env::args().skip(1)).and_then(|plan| {
        progress(&format!("{plan:?}"));
        let figures = engine::run(&plan, &mut progress)?;
        report(&figures);
        Ok(figures.faults.is_empty())
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            progress(&format!("load: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// What the command line says.
fn plan(arguments: impl Iterator<Item = String>) -> Result<Plan, Box<dyn Error>> {
    let arguments: Vec<String> = arguments.collect();
    let soak = arguments.iter().any(|argument| argument == "soak");
    let (mut minutes, mut bots, mut rate) = if soak { (60, 50, 20) } else { (10, 200, 1000) };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || -> Result<u64, Box<dyn Error>> { Ok(words.next().ok_or("a number is missing")?.parse()?) };
        match word.as_str() {
            "--minutes" => minutes = number()?,
            "--bots" => bots = number()?,
            "--rate" => rate = number()?,
            // What cargo says to every benchmark.
            "soak" | "--bench" => {}
            other => return Err(format!("what is {other}? soak, --minutes N, --bots N, --rate N").into()),
        }
    }
    let time = Duration::from_secs(60 * minutes);
    let built = || PathBuf::from(env!("CARGO_BIN_EXE_coda-grok-bot"));
    Ok(Plan {
        binary: std::env::var_os("CODA_GROK_BOT_BINARY").map_or_else(built, PathBuf::from),
        bots: usize::try_from(bots)?.max(1),
        rate,
        time,
        edits: soak,
        weather: soak.then_some((Duration::from_secs(2), Duration::from_secs(12))),
        long: 500,
        deaf: (!soak).then_some((time / 2, Duration::from_secs(30).min(time / 4), 300)),
        settle: Duration::from_mins(1),
        late: (Duration::from_millis(500), Duration::from_secs(3)),
        spare: 64 << 20,
    })
}

fn report(figures: &Figures) {
    let mib = |bytes: u64| format!("{}.{} MiB", bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20);
    let Figures { sent, messages, text, told, timed, late, .. } = figures;
    say(&format!("{sent} changes sent; {messages} messages found, {} of text; {told} heads told", mib(*text)));
    if *timed > 0 {
        let [p50, p99, most] = late;
        say(&format!(
            "beyond the quiet second, {timed} messages: p50 {p50:.1} ms, p99 {p99:.1} ms, the longest {most:.1} ms"
        ));
    }
    if let Some((deaf, caught_up)) = figures.deaf {
        let [before, during] = figures.deaf_sizes.map(mib);
        say(&format!(
            "a host that didn't read for {deaf:.1?}: {before} before, {during} at its end; a row waited for the provider at most {:?}; caught up after {caught_up:.1?}",
            figures.lag
        ));
    }
    for (what, times) in &figures.weather {
        say(&format!("{times} times: {what}"));
    }
    let (streams, pages) = (figures.streams, figures.pages);
    say(&format!(
        "{streams} streams, {pages} pages; everything was there and checked {:.1?} after the end",
        figures.converged
    ));
    for (when, size) in
        ["at the start", "at most (looked at every second)", "when everything was there", "a minute later"]
            .iter()
            .zip(figures.sizes)
    {
        say(&format!("{when}: {} resident, {} threads, {} open files", mib(size.resident), size.threads, size.files));
    }
    say(&format!("the most that was ever resident: {}", mib(figures.sizes[1].peak)));
    let beyond = (figures.sizes[2].resident.saturating_sub(figures.sizes[0].resident + text)) / messages.max(&1);
    say(&format!("{beyond} bytes a message beyond its text, all growth included"));
    for fault in &figures.faults {
        say(&format!("FAULT: {fault}"));
    }
    say(if figures.faults.is_empty() { "all is well" } else { "not all is well" });
}

#[expect(clippy::print_stdout, reason = "the result of a benchmark")]
fn say(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "progress, beside the result")]
fn progress(text: &str) {
    eprintln!("{text}");
}
