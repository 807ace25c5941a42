//! What somebody waits for: the start, a page over stdio, the moment at which a message can be read.

use std::collections::HashMap;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::child::mib;
use crate::data::{self, GENERATION, Rng};
use crate::provider::{self, Provider, binary};
use crate::service::Service;
use crate::stats::{Clock, Table, Values, float, progress, say, verdict};
use crate::{Options, Result, flow, rows, server};

/// The quiet second: how long a text must stay unchanged before it is shown.
const QUIET: Duration = Duration::from_secs(1);
/// Bots whose answers stream.
const BOTS: usize = 100;
/// Starts that are timed, and pages.
const STARTS: usize = 40;
const PAGES: usize = 3000;
/// Bytes of text in a row of the long record.
const TEXT: usize = 300;

/// How late sleeps of this process itself end, in milliseconds, until `stop`: what the machine adds to every wait of everybody.
fn lateness(stop: &AtomicBool) -> Values {
    const STEP: Duration = Duration::from_millis(5);
    let mut late = Values::default();
    while !stop.load(Ordering::Relaxed) {
        let begun = Clock::now();
        thread::sleep(STEP);
        late.add(millis(Clock::now().saturating_sub(begun + STEP)));
    }
    late
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// From the start of the process to the answer of `initialize`; the binary's size.
pub(crate) fn start(service: &mut Service) -> Result<()> {
    let set = "list-1-1-300";
    service.warm(set)?;
    let (mut signed_in, mut signed_out, mut nothing) = <(Values, Values, Values)>::default();
    for _ in 0..STARTS {
        for (values, known) in [(&mut signed_in, true), (&mut signed_out, false)] {
            let folder = tempfile::tempdir()?;
            let data = folder.path().join("data");
            if known {
                provider::sign_in(&data)?;
            }
            let begun = Clock::now();
            let provider = Provider::start(&data, &service.base(set))?;
            values.add(millis(Clock::now().saturating_sub(begun)));
            provider.process.kill()?;
        }
        let begun = Clock::now();
        Command::new("true").stdin(Stdio::null()).status()?;
        nothing.add(millis(Clock::now().saturating_sub(begun)));
    }
    let mut table = Table::new(&["start", "must be", "p50", "p10–p90", ""]);
    for (what, most, values) in [
        ("to the answer of `initialize`, signed in", Some(10.0), &signed_in),
        ("to the answer of `initialize`, signed out", Some(10.0), &signed_out),
        ("for comparison: `true`, to its end", None, &nothing),
    ] {
        let must = most.map_or("–".to_owned(), |most| format!("≤ {most} ms"));
        let spread = format!("{:.1}–{:.1} ms", values.quantile(0.1), values.quantile(0.9));
        let judged = most.map_or("", |most| verdict(values.median(), most));
        table.row(&[what.to_owned(), must, format!("{:.1} ms", values.median()), spread, judged.to_owned()]);
    }
    let size = mib(fs::metadata(binary())?.len());
    table.row(&["the binary, stripped", "≤ 7 MiB", &format!("{size:.2} MiB"), "", verdict(size, 7.0)]);
    table.print(&format!("Start ({STARTS} each, in turn) and size"));
    Ok(())
}

/// Pages of a long record over stdio, in turn with a request that is answered without any work.
pub(crate) fn stdio(options: &Options, service: &mut Service) -> Result<()> {
    let rows = options.long as u64;
    let set = format!("list-1-{rows}-{TEXT}");
    progress(&format!("a record of {rows}"));
    service.warm(&set)?;
    let (mut head, mut text, mut ids, mut messages) = (0, 0, 0, 0);
    for row in server::transcript(0, rows, TEXT).filter(|row| row.message) {
        head = head.max(row.number);
        text += row.text.len() as u64;
        ids += row.id.len() as u64;
        messages += 1;
    }
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    provider::sign_in(&data)?;
    let mut provider = Provider::start(&data, &service.base(&set))?;
    provider.until(&HashMap::from([(data::agent(0), head)]))?;
    let usage = provider.process.usage()?;
    let record = provider.records[&data::agent(0)].clone();
    let (mut page, mut empty, mut rng) = (Values::default(), Values::default(), Rng(4711));
    for _ in 0..PAGES {
        let number = 1000 + rng.next() % (2 * rows - 1000);
        let params = json!({"record": record, "before": format!("{GENERATION}:{number}"), "limit": 50});
        let begun = Clock::now();
        let answer = provider.call("session/read", &params)?;
        page.add(millis(Clock::now().saturating_sub(begun)) * 1000.0);
        if answer.matches("\"cursor\":").count() != 50 {
            return Err("a page isn't full".into());
        }
        let begun = Clock::now();
        provider.call("bench/nothing", &json!({}))?;
        empty.add(millis(Clock::now().saturating_sub(begun)) * 1000.0);
    }
    provider.quit()?;
    let mut table = Table::new(&["round trip over stdio, µs", "must be", "p50", "p99", ""]);
    let over = page.median() - empty.median();
    let cells = |values: &Values| [format!("{:.0}", values.median()), format!("{:.0}", values.quantile(0.99))];
    let ([p50, p99], [e50, e99]) = (cells(&page), cells(&empty));
    table.row(&["`session/read` of 50 at random places", "–", &p50, &p99, ""]);
    table.row(&["an empty request (an unknown method)", "–", &e50, &e99, ""]);
    table.row(&["the first over the second, p50", "≤ 150", &format!("{over:.0}"), "–", verdict(over, 150.0)]);
    table.print(&format!("Pages over stdio, a record of {rows} rows"));
    let beyond = float(usage.resident.saturating_sub(text + ids)) / float(messages);
    say(&format!(
        "\nThe whole process holds {:.0} MiB then ({:.0} at its peak): {beyond:.0} bytes a message beyond its text and its entry's id, all else included.",
        mib(usage.resident),
        mib(usage.peak)
    ));
    Ok(())
}

/// How long after its quiet second a message can be read, while many stream.
pub(crate) fn delay(options: &Options, service: &mut Service) -> Result<()> {
    let set = format!("list-{BOTS}-1-{TEXT}");
    service.warm(&set)?;
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("data");
    provider::sign_in(&data)?;
    let mut provider = Provider::start(&data, &service.base(&set))?;
    let first = |_| rows::old_number(1, 1);
    provider.until(&(0..BOTS).map(|bot| (data::agent(bot), first(bot))).collect())?;
    while service.count(&format!("opened {set}"))? == 0 {
        thread::sleep(Duration::from_millis(20));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let probe = thread::spawn({
        let stop = Arc::clone(&stop);
        move || lateness(&stop)
    });
    let mut p99 = Values::default();
    let mut all = Values::default();
    for round in 1..=options.rounds as u64 {
        let lasts = flow::read(&service.command(&format!("flow {set} {}", round * 100_000))?).ok_or("no flow")?;
        let mut heads: HashMap<String, u64> = HashMap::new();
        for last in &lasts {
            let head = heads.entry(data::agent(last.bot)).or_default();
            *head = last.number.max(*head);
        }
        provider.until(&heads)?;
        let mut delays = Values::default();
        for last in &lasts {
            let agent = data::agent(last.bot);
            let told = provider.told.iter().find(|(of, number, _)| *of == agent && *number >= last.number);
            let (_, _, at) = told.ok_or("a head that was never told")?;
            // Negative only where a version was shown before its second was over: that would be a fault.
            delays.add(at.as_secs_f64() * 1000.0 - millis(last.at + QUIET));
        }
        if delays.quantile(0.0) < -5.0 {
            return Err(format!("a message was shown {} ms too early", -delays.quantile(0.0)).into());
        }
        p99.add(delays.quantile(0.99));
        all.0.append(&mut delays.0);
    }
    provider.quit()?;
    stop.store(true, Ordering::Relaxed);
    let late = probe.join().map_err(|_| "the probe panicked")?;
    let mut table = Table::new(&["delay beyond the quiet second, ms", "must be", "measured", ""]);
    table.row(&["p99 of each flow", "≤ 15", &format!("{p99:.1}"), verdict(p99.median(), 15.0)]);
    table.row(&["p50 of all", "–", &format!("{:.1}", all.median()), ""]);
    table.row(&["the longest", "–", &format!("{:.1}", all.quantile(1.0)), ""]);
    let bare = format!("{:.1}; {:.1}", late.quantile(0.99), late.quantile(1.0));
    table.row(&["for comparison: a bare sleep meanwhile ends late by, p99; the longest", "–", &bare, ""]);
    table.print(&format!(
        "{} entries streaming in {BOTS} Bots, from the service's write to the host's read",
        flow::ENTRIES
    ));
    Ok(())
}
