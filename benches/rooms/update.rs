//! How long an update to one entry of a long record takes: the row's arrival, and all the way to its message.

use std::time::Duration;

use coda_grok_bot::mirror::Input;

use crate::data::{GENERATION, Rng};
use crate::stats::{Clock, Table, Values, say, verdict};
use crate::world::{World, row, text};
use crate::{Figures, Options, Result, figure, run};

/// Updates in a run.
const UPDATES: u64 = 100_000;

/// Updates entries at random. Every number is one that somebody could wait for: in microseconds.
pub(crate) fn child(messages: &str) -> Result<()> {
    let messages: u64 = messages.parse()?;
    // A pause of the program comes at the same update of every run; one of the machine doesn't. So the longest is that of the least of three.
    let mut least: Vec<f64> = Vec::new();
    for run in 0..3 {
        let (mut world, mut rng) = (World::new(1), Rng(4711));
        world.fill(0, messages);
        let (mut arrivals, mut whole) = (Values::default(), Values::default());
        for number in messages + 1..=messages + UPDATES {
            let seq = 1 + rng.next() % messages;
            let rows = vec![row(0, seq, number, &text(0, seq, number))];
            let start = Clock::now();
            world.feed(0, Input::Rows { generation: Some(GENERATION), rows, deletes: Vec::new() });
            let arrived = Clock::now();
            world.pass(Duration::from_secs(2));
            world.feed(0, Input::Tick);
            let end = Clock::now();
            let micros = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64() * 1e6;
            arrivals.add(micros(start, arrived));
            whole.add(micros(start, end));
        }
        if world.head(0) != Some(messages + UPDATES) {
            return Err("not every update was exposed".into());
        }
        least = if run == 0 { whole.0.clone() } else { least.iter().zip(&whole.0).map(|(a, b)| a.min(*b)).collect() };
        if run == 2 {
            say(&format!("row-p50 {}", arrivals.quantile(0.5)));
            say(&format!("row-p99 {}", arrivals.quantile(0.99)));
            say(&format!("whole-p50 {}", whole.quantile(0.5)));
            say(&format!("whole-p99 {}", whole.quantile(0.99)));
        }
    }
    say(&format!("pause {}", Values(least).quantile(1.0)));
    Ok(())
}

pub(crate) fn bench(options: &Options) -> Result<()> {
    let mut figures = Figures::new();
    let messages = options.messages.to_string();
    for _ in 0..options.rounds {
        run(&mut figures, "", &["update", &messages])?;
    }
    let mut table = Table::new(&["an update, µs", "must be", "measured", ""]);
    for (what, name, most) in [
        ("from the row to its message, p50", "whole-p50", 3.0),
        ("from the row to its message, p99", "whole-p99", 12.0),
        ("the longest of 100,000 (the least of three runs of the same updates)", "pause", 2000.0),
        ("the row's arrival alone, p50", "row-p50", f64::NAN),
        ("the row's arrival alone, p99", "row-p99", f64::NAN),
    ] {
        let values = figure(&figures, name)?;
        let (must, verdict) = if most.is_nan() {
            ("–".to_owned(), "")
        } else {
            (format!("≤ {most}"), verdict(values.median(), most))
        };
        table.row(&[what.to_owned(), must, format!("{values:.1}"), verdict.to_owned()]);
    }
    table.print(&format!("Updates to one entry of a record of {messages}"));
    Ok(())
}
