//! What a mirrored message costs in resident memory beyond its text and its entry's id.

use std::time::Duration;

use coda_grok_bot::mirror::Input;

use crate::data::{GENERATION, Rng};
use crate::stats::{Table, float, say, verdict};
use crate::world::{World, resident, row, text};
use crate::{Figures, Options, Result, figure, run};

/// Rows that a frame brings while everything is edited at random.
const FRAME: u64 = 100;

/// Fills records with so many messages, then edits four in ten at random.
pub(crate) fn child(bots: &str, messages: &str) -> Result<()> {
    let (bots, messages): (usize, u64) = (bots.parse()?, messages.parse()?);
    let each = messages / bots as u64;
    let mut world = World::new(bots);
    let empty = resident();
    for bot in 0..bots {
        world.fill(bot, each);
    }
    let held =
        |world: &World, count: u64| float((resident() - empty).saturating_sub(world.text + world.ids)) / float(count);
    say(&format!("fresh {}", held(&world, messages)));

    let (mut rng, mut next, edits) = (Rng(4711), vec![each; bots], messages * 4 / 10);
    for _ in 0..edits / FRAME {
        let bot = rng.below(bots);
        let rows = (0..FRAME).map(|_| {
            next[bot] += 1;
            let seq = 1 + rng.next() % each;
            let text = text(bot, seq, next[bot]);
            world.text += text.len() as u64;
            row(bot, seq, next[bot], &text)
        });
        let rows: Vec<_> = rows.collect();
        world.feed(bot, Input::Rows { generation: Some(GENERATION), rows, deletes: Vec::new() });
        world.pass(Duration::from_secs(2));
        world.feed(bot, Input::Tick);
    }
    for (bot, next) in next.into_iter().enumerate() {
        if world.head(bot) != Some(next) {
            return Err("not every edit was exposed".into());
        }
    }
    say(&format!("edited {}", held(&world, messages + edits)));
    say(&format!("edited-per-entry {}", held(&world, messages)));
    Ok(())
}

pub(crate) fn bench(options: &Options) -> Result<()> {
    let mut figures = Figures::new();
    let messages = options.messages.to_string();
    for _ in 0..options.rounds {
        run(&mut figures, "20 ", &["memory", "20", &messages])?;
        run(&mut figures, "1 ", &["memory", "1", &messages])?;
    }
    let mut table =
        Table::new(&["bytes a message beyond its text and its entry's id", "must be", "in 20 Bots", "in one Bot", ""]);
    let mut row = |what: &str, name: &str, most: f64| -> Result<()> {
        let (many, one) = (figure(&figures, &format!("20 {name}"))?, figure(&figures, &format!("1 {name}"))?);
        let worst = many.median().max(one.median());
        let (most, verdict) =
            if most.is_nan() { ("–".to_owned(), "") } else { (format!("≤ {most}"), verdict(worst, most)) };
        table.row(&[what.to_owned(), most, format!("{many:.1}"), format!("{one:.1}"), verdict.to_owned()]);
        Ok(())
    };
    row("fresh", "fresh", 100.0)?;
    row("after 400,000 random edits, each a message of its own", "edited", 160.0)?;
    row("the same, divided by entries alone", "edited-per-entry", f64::NAN)?;
    table.print(&format!("Memory: {messages} messages of about 300 bytes, resident"));
    Ok(())
}
