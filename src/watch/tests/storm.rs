//! Weather by seed: Bots talk while streams break, calls fail, the disk fills, histories are cleared and the provider crashes. When it is over, the
//! records say what the service says, and every run is settled.

use std::collections::HashMap;
use std::time::Duration;

use fastrand::Rng;

use super::bed::fault::{Fault, Request, any_error};
use super::bed::frames::Manner;
use super::bed::host::Run;
use super::bed::{ANN, Bed, rows};
use crate::model::{EntryId, Version};
use crate::records::{Failure, Outcome};

const BOTS: [&str; 3] = ["a", "b", "c"];

/// One thing happens.
fn happen(bed: &Bed, rng: &mut Rng, rows_of: &mut HashMap<&str, Vec<u64>>, runs: &mut Vec<Run>, step: u32) {
    let bot = BOTS[rng.usize(..BOTS.len())];
    let seqs = rows_of.entry(bot).or_default();
    match rng.u8(0..100) {
        0..30 => seqs.push(bed.service.says(bot, &format!("said {step}"))),
        30..50 if !seqs.is_empty() => {
            let seq = seqs[rng.usize(..seqs.len())];
            bed.service.overwrite(bot, seq, rows::said(&format!("again {step}")));
        }
        50..56 if !seqs.is_empty() => {
            let seq = seqs.swap_remove(rng.usize(..seqs.len()));
            bed.service.delete(bot, seq);
        }
        56..60 => {
            let hash = format!("hash {step}");
            bed.service.store_blob(&hash, rows::said(&format!("stored {step}")));
            seqs.push(bed.service.append(bot, rows::blob(&hash)));
        }
        60..62 => seqs.push(bed.service.append_omitted(bot, rows::said(&format!("cut {step}")))),
        62..70 if bed.host.bots().contains(&bot.to_owned()) => runs.push(bed.host.post(bot, &format!("post {step}"))),
        70..72 => {
            seqs.clear();
            bed.service.clear(bot, u64::from(step) + 10);
        }
        72 => {
            seqs.clear();
            bed.service.clear_silently(bot, u64::from(step) + 10);
        }
        73..75 => bed.service.forget_changes(bot),
        75..78 => bed.service.end_streams(),
        78..80 => bed.service.break_streams(any_error(rng)),
        80..84 => bed.service.fault(Request::is_list, Fault::any(rng)),
        84..86 => bed.service.fault(Request::is_watch, Fault::any(rng)),
        86..88 => bed.service.fault(|r| matches!(r, Request::Blob(_)), Fault::any(rng)),
        88..91 => bed.service.fault(Request::is_send, Fault::any(rng)),
        91..93 => bed.service.fault(|r| *r == Request::Agents, Fault::error(any_error(rng)).once()),
        93 => bed.service.next_streams([Manner::EndsAtOnce]),
        94 => bed.service.next_streams([Manner::Lives(Duration::from_secs(rng.u64(1..20)))]),
        95 => bed.shelf.full(rng.bool()),
        96 => bed.service.live(bot, rows::tool(&format!("step {step}"))),
        97 => match rng.u8(0..4) {
            0 => bed.service.next_streams([Manner::Mute]),
            1 => bed.service.next_streams([Manner::Silent]),
            2 => bed.desk.end(ANN),
            _ => bed.desk.sign_in_as(ANN),
        },
        98 => {
            if let Some(token) = bed.desk.current() {
                bed.service.reject(&token);
            }
        }
        _ if rng.bool() => {
            bed.service.remove_bot(bot);
            bed.service.roster_changed();
        }
        _ => {
            bed.service.list_bot(ANN, bot);
            bed.service.roster_changed();
        }
    }
}

/// What a host makes of a record: the last text of every entry that isn't deleted.
fn folded(bed: &Bed, bot: &str) -> HashMap<EntryId, String> {
    let mut texts = HashMap::new();
    for message in bed.host.messages(bot) {
        match message.version {
            Version::Base | Version::Edit => texts.insert(message.entry, message.text.to_string()),
            Version::Delete => texts.remove(&message.entry),
        };
    }
    texts
}

async fn weather(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let mut bed = Bed::idle(&BOTS);
    if rng.bool() {
        bed.service.page_limit(3);
    }
    let mut rows_of = HashMap::new();
    let mut runs: Vec<Run> = Vec::new();
    let mut known: HashMap<(String, String), String> = HashMap::new();
    bed.run();
    for step in 0..150 {
        happen(&bed, &mut rng, &mut rows_of, &mut runs, step);
        bed.millis([0, 1, 300, 1_100, 4_000][rng.usize(..5)]).await;
        for bot in bed.host.bots() {
            for message in bed.host.messages(&bot) {
                let generation = bed.host.generation(&bot);
                let text = known.entry((bot.clone(), message.id(generation))).or_insert(message.text.to_string());
                assert_eq!(*text, *message.text, "seed {seed}, step {step}: an id came again with another text");
            }
        }
        if rng.u8(0..60) == 0 {
            bed.crash().await;
            // Its hosts are gone with it.
            runs.clear();
            bed.run();
        }
    }
    bed.service.mend();
    bed.desk.sign_in_as(ANN);
    for bot in BOTS {
        bed.service.list_bot(ANN, bot);
    }
    bed.shelf.full(false);
    bed.secs(200).await;
    // What was lost for good while its calls failed comes with the next full read.
    bed.service.end_streams();
    bed.secs(200).await;
    for bot in BOTS {
        assert_eq!(folded(&bed, bot), bed.service.texts(bot), "seed {seed}, {bot}");
        let heads = bed.host.heads(bot);
        let forward = |pair: &[Option<crate::model::Cursor>]| match (pair[0], pair[1]) {
            (Some(old), Some(new)) => new.generation != old.generation || new.number > old.number,
            _ => true,
        };
        assert!(heads.windows(2).all(forward), "seed {seed}, {bot}: {heads:?}");
    }
    for run in &mut runs {
        let landed = bed.service.landed(run.message_id);
        match run.outcome() {
            None => panic!("seed {seed}: a run was never settled"),
            Some(Outcome::Completed { .. }) => assert!(landed, "seed {seed}"),
            // Nobody can be sure.
            Some(Outcome::Failed(Failure::Unknown)) => {}
            Some(Outcome::Failed(why)) => assert!(!landed, "seed {seed}: {why:?}, and yet it was posted"),
        }
    }
    assert_eq!(bed.service.calls_now(), 0, "seed {seed}");
    assert_eq!(bed.service.open_streams(), 1, "seed {seed}");
    assert_eq!(bed.host.message(), None, "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn after_any_weather_the_records_say_what_the_service_says() {
    let seeds = std::env::var("WEATHER").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(40);
    for seed in 0..seeds {
        weather(seed).await;
    }
}
