//! The whole provider under weather by seed.
//!
//! The real loop, mirrors, index, records and host sessions run on a paused clock between a service in memory and hosts that speak JSON. A seed makes
//! a random history, random faults and random hosts; afterwards, and all the while, the invariants are held against what the hosts were told. A run
//! is the same each time, so a seed that fails is replayed by its number:
//!
//! ```text
//! SEED=123 cargo nextest run --lib a_seed_replays --no-capture
//! SEEDS=20000 cargo nextest run --lib service::tests    # the longer mode
//! FROM=20000 SEEDS=40000 cargo nextest run --lib service::tests    # in pieces
//! ```

mod disk;
mod happen;
mod history;
mod host;
mod judge;
mod model;
mod net;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;

use disk::Disk;
use history::History;
use model::Ledger;
use net::Weather;
use world::{StopBy, World};

/// Seeds of the test command, over all tests of this file.
const SEEDS: u64 = 2_000;
/// Tests among which they are dealt out, so that they run side by side.
const HANDS: u64 = 8;
/// Failures after which a hand gives up.
const ENOUGH: usize = 10;

/// How bad the network of this run is.
fn weather(rng: &mut Rng) -> Weather {
    match rng.u8(0..4) {
        0 => Weather::default(),
        1 => Weather { latency: 100, cut: 10, ..Weather::default() },
        2 => Weather { latency: 400, late: 5, twice: 15, swap: 0, cut: 20 },
        _ => Weather { latency: 900, late: 10, twice: 20, swap: 25, cut: 30 },
    }
}

async fn run(seed: u64, disk: Disk, ledger: Ledger, history: History) {
    let mut rng = Rng::with_seed(seed);
    // The loop's own chance, for its waits.
    fastrand::seed(rng.u64(..));
    let weather = weather(&mut rng);
    history_of(&mut World::new(rng, disk, ledger, history, weather)).await;
}

async fn history_of(world: &mut World) {
    let mix = happen::mix(&mut world.rng);
    let steps = world.rng.usize(15..70);
    if mix.iter().sum::<u32>() == 0 {
        return;
    }
    world.start();
    for _ in 0..steps {
        world.happen(&mix).await;
        let wait = [0, 0, 1, 120, 400, 1_100, 2_500, 9_000][world.rng.usize(..8)];
        world.pass(wait).await;
        world.goes_on();
        if world.history.is_wrong() {
            return;
        }
    }
    world.calm().await;
    world.goes_on();
    if world.history.is_wrong() {
        return;
    }
    world.judge();
    if world.history.is_wrong() {
        return;
    }
    // Stopped and begun anew, it says the same.
    let by = [StopBy::Shutdown, StopBy::Close, StopBy::Signal, StopBy::Abandon][world.rng.usize(..4)];
    world.stop(by).await;
    if world.rng.u8(0..3) == 0 && !world.history.is_wrong() {
        world.calm().await;
        world.judge();
        world.stop(StopBy::Signal).await;
    }
}

fn replay(seed: u64) -> String {
    format!("SEED={seed} cargo nextest run --lib a_seed_replays --no-capture")
}

/// One run on a runtime of its own: its history, and what was wrong.
fn weather_of(seed: u64) -> (Vec<String>, Vec<String>) {
    let history = History::default();
    let ledger = Ledger::default();
    let disk = Disk::new(ledger.clone(), history.clone());
    let (idle, busy) = (disk.clone(), disk.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(1)
        .on_thread_park(move || idle.idle())
        .on_thread_unpark(move || busy.busy())
        .build()
        .unwrap();
    let panicked =
        catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(seed, disk, ledger, history.clone())))).is_err();
    drop(runtime);
    let mut wrong = history.wrongs();
    if panicked {
        wrong.push("a panic; see above".to_owned());
    }
    (history.lines(), wrong)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// One hand's share of the seeds. It goes on after a failure: which others fail, and how, says more than one history.
fn hand(hand: u64) {
    let (from, to) = (number("FROM").unwrap_or(0), number("SEEDS").unwrap_or(SEEDS));
    let mut failed = Vec::new();
    for seed in (from..to).filter(|seed| seed % HANDS == hand) {
        let (lines, wrong) = weather_of(seed);
        if !wrong.is_empty() {
            if failed.is_empty() {
                println!("seed {seed}:\n{}", lines.join("\n"));
            }
            failed.push(format!("{}\n    {}", replay(seed), wrong.join("\n    ")));
        }
        if failed.len() == ENOUGH {
            break;
        }
    }
    assert!(failed.is_empty(), "replay with\n{}", failed.join("\n"));
}

#[test]
fn whatever_happens_hosts_read_what_the_service_says_0() {
    hand(0);
}

#[test]
fn whatever_happens_hosts_read_what_the_service_says_1() {
    hand(1);
}

#[test]
fn whatever_happens_hosts_read_what_the_service_says_2() {
    hand(2);
}

#[test]
fn whatever_happens_hosts_read_what_the_service_says_3() {
    hand(3);
}

#[test]
fn whatever_happens_hosts_read_what_the_service_says_4() {
    hand(4);
}

#[test]
fn whatever_happens_hosts_read_what_the_service_says_5() {
    hand(5);
}

#[test]
fn whatever_happens_hosts_read_what_the_service_says_6() {
    hand(6);
}

#[test]
fn whatever_happens_hosts_read_what_the_service_says_7() {
    hand(7);
}

#[test]
fn a_seed_replays() {
    // With SEED that one alone, its history printed; else a few, each twice.
    if let Some(seed) = number("SEED") {
        let (lines, wrong) = weather_of(seed);
        println!("{}", lines.join("\n"));
        assert!(wrong.is_empty(), "seed {seed}: {wrong:#?}");
        return;
    }
    for seed in 0..25 {
        let (first, second) = (weather_of(seed).0, weather_of(seed).0);
        if first != second {
            let at = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
            panic!(
                "seed {seed} differs: {:?} and {:?} after {:#?}",
                first.get(at),
                second.get(at),
                &first[at.saturating_sub(20)..at]
            );
        }
    }
}
