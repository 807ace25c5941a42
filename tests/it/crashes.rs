//! SIGKILL at random moments, while the service talks and a host follows; on a disk that fills up, in a folder that can't be written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coda_grok_bot::simulate::{Control, Options, TokenPolicy};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{Bench, LIMIT, Ledger, Mounted, Talk, fill};

/// The lanes run side by side, each with a service and a folder of its own.
const LANES: u64 = 8;
const BOTS: usize = 6;
/// Between two changes of a lane's service.
const PACE: std::ops::Range<u64> = 10..40;
/// Milliseconds of a life. A second must pass before anything is shown for the first time.
const LIFE: u64 = 1600;
/// How long something is waited for that comes soon, but needn't: a disk may be full.
const SOON: Duration = Duration::from_millis(2500);

/// A number from the environment: `GROK_BOT_TEST_KILLS` for more kills, `GROK_BOT_TEST_SEED` for the moments of a run that failed.
fn number(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a number"))
}

#[expect(clippy::print_stderr, reason = "how to have the same moments again")]
fn seed() -> u64 {
    let seed = number("GROK_BOT_TEST_SEED").unwrap_or_else(|| fastrand::u64(..));
    eprintln!("GROK_BOT_TEST_SEED={seed}");
    seed
}

/// Waits until a method is called once more.
async fn until_more(control: &Control, method: &str) {
    let before = control.count(method);
    let _ = timeout(SOON, control.until(|control| control.count(method) > before)).await;
}

/// A service that talks, a folder, and a host that remembers.
struct Lane {
    bench: Bench,
    agents: Vec<String>,
    ledger: Ledger,
    random: fastrand::Rng,
    talk: Arc<Mutex<Talk>>,
    /// Ends with the lane.
    talking: JoinSet<()>,
    /// The folder can always be written.
    disk_is_well: bool,
}

impl Lane {
    async fn new(seed: u64) -> Self {
        // A new refresh token each time, so that every renewal writes another document.
        let tokens = TokenPolicy { rotate: true, ..TokenPolicy::default() };
        let bench = Bench::new(Options { tokens, ..Options::default() }).await;
        let agents: Vec<String> = (0..BOTS).map(|number| format!("bot-{number}")).collect();
        for agent in &agents {
            bench.bot(agent);
        }
        let talk = Arc::new(Mutex::new(Talk::new(bench.control.clone(), seed, agents.clone())));
        let (ledger, random) = (Ledger::new(seed), fastrand::Rng::with_seed(seed));
        Self { bench, agents, ledger, random, talk, talking: JoinSet::new(), disk_is_well: true }
    }

    /// Signs in and begins to talk.
    fn begin(&mut self) {
        self.bench.sign_in();
        let (talk, mut random) = (Arc::clone(&self.talk), self.random.fork());
        self.talking.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(random.u64(PACE))).await;
                talk.lock().unwrap_or_else(PoisonError::into_inner).step();
            }
        });
    }

    /// A process from its start to its kill.
    async fn life(&mut self) {
        let (kind, mut random) = (self.random.u8(0..4), self.random.fork());
        if kind == 1 && self.disk_is_well {
            // A token that has just been renewed isn't renewed again for a while, in no process; a new sign-in is.
            self.bench.sign_in();
        }
        let mut host = self.bench.spawn();
        let heard = Arc::clone(&self.ledger.heard);
        let control = self.bench.control.clone();
        let moment = async move {
            let mut wait = |range| tokio::time::sleep(Duration::from_millis(random.u64(range)));
            if kind == 0 {
                // Anywhere, also before it has said a word.
                return wait(0..LIFE).await;
            }
            until_more(&control, "GetMe").await;
            match kind {
                // While the sign-in is being renewed, and its file written.
                1 => {
                    wait(0..900).await;
                    control.expire_access_tokens(true);
                    until_more(&control, "oauth/token").await;
                    wait(0..8).await;
                }
                // While the index is written: near the moment at which something new is shown.
                2 => {
                    let _ = timeout(SOON, heard.notified()).await;
                    wait(0..400).await;
                }
                _ => wait(1000..LIFE + 700).await,
            }
        };
        tokio::select! {
            biased;
            () = moment => {}
            () = self.ledger.follow(&mut host, &self.bench, |_| false) => {}
        }
        self.ledger.kill(host, &self.bench).await;
        self.talking_goes_on();
    }

    fn talking_goes_on(&mut self) {
        if let Some(ended) = self.talking.try_join_next() {
            ended.unwrap();
        }
    }

    /// The service falls silent. What the host knows becomes what the service holds, and a last start shows it again.
    async fn end(mut self) {
        self.talking_goes_on();
        self.talking.shutdown().await;
        self.ledger.posting = false;
        let (bench, agents, ledger) = (&self.bench, &self.agents, &mut self.ledger);
        let mut host = bench.spawn();
        let caught_up = ledger.follow(&mut host, bench, |ledger| ledger.agrees(bench, agents));
        timeout(LIMIT, caught_up).await.expect("the host catches up");
        host.quit().await;
        let mut host = bench.spawn();
        let again = ledger.follow(&mut host, bench, |ledger| ledger.all_whole(agents.len()));
        timeout(LIMIT, again).await.expect("every record is read again");
        assert!(ledger.agrees(bench, agents), "nothing changed since: {}", ledger.differences(bench, agents));
        host.quit().await;
        let mut texts: Vec<String> = bench.control.received_messages().into_iter().map(|sent| sent.text).collect();
        let all = texts.len();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), all, "something was posted twice");
    }
}

#[tokio::test]
async fn a15_killed_at_two_hundred_random_moments() {
    let (seed, kills) = (seed(), number("GROK_BOT_TEST_KILLS").unwrap_or(200));
    let mut lanes = JoinSet::new();
    for number in 0..LANES {
        lanes.spawn(async move {
            let mut lane = Lane::new(seed.wrapping_add(number)).await;
            lane.begin();
            for _ in (number..kills).step_by(usize::try_from(LANES).unwrap()) {
                lane.life().await;
            }
            let (shown, renewed) = (lane.ledger.shown(), lane.bench.control.count("oauth/token"));
            lane.end().await;
            (shown, renewed)
        });
    }
    let mut all = (0, 0);
    while let Some(lane) = lanes.join_next().await {
        let (shown, renewed) = lane.unwrap();
        all = (all.0 + shown, all.1 + renewed);
    }
    // Else the kills met nobody at work.
    assert!(kills < 200 || (all.0 > 400 && all.1 >= 25), "{all:?}");
}

#[tokio::test]
async fn a15_killed_on_a_disk_that_fills_up_and_has_room_again() {
    let seed = seed();
    let mut lanes = JoinSet::new();
    for number in 0..4 {
        lanes.spawn(async move {
            let mut lane = Lane::new(seed.wrapping_add(number)).await;
            lane.disk_is_well = false;
            let Some(mounted) = Mounted::over(&lane.bench.data(), "1m").await else { return false };
            lane.begin();
            let (filler, full) = (mounted.0.join("filler"), Arc::new(AtomicBool::new(false)));
            for _ in 0..6 {
                let mut random = lane.random.fork();
                let toggling = async {
                    loop {
                        tokio::time::sleep(Duration::from_millis(random.u64(50..900))).await;
                        if full.fetch_not(Ordering::Relaxed) {
                            std::fs::remove_file(&filler).unwrap();
                        } else {
                            fill(&filler);
                        }
                    }
                };
                tokio::select! {
                    () = lane.life() => {}
                    () = toggling => {}
                }
            }
            let _ = std::fs::remove_file(&filler);
            lane.end().await;
            true
        });
    }
    skipped(all(lanes).await);
}

#[tokio::test]
async fn a15_killed_in_a_folder_that_is_read_only_and_writable_again() {
    let seed = seed();
    let mut lanes = JoinSet::new();
    for number in 0..4 {
        lanes.spawn(async move {
            let mut lane = Lane::new(seed.wrapping_add(number)).await;
            lane.disk_is_well = false;
            let Some(mounted) = Mounted::over(&lane.bench.data(), "4m").await else { return false };
            lane.begin();
            // One that no provider ever had can't be locked once it is read-only: then a provider says so and ends.
            let (mut host, agents) = (lane.bench.spawn(), lane.agents.len());
            let up = lane.ledger.follow(&mut host, &lane.bench, |ledger| ledger.all_whole(agents));
            timeout(LIMIT, up).await.expect("every record is read");
            lane.ledger.kill(host, &lane.bench).await;
            for round in 0..6 {
                mounted.remount(if round % 2 == 0 { "rw" } else { "ro" }).await;
                lane.life().await;
            }
            mounted.remount("rw").await;
            lane.end().await;
            true
        });
    }
    skipped(all(lanes).await);
}

async fn all(mut lanes: JoinSet<bool>) -> bool {
    let mut ran = true;
    while let Some(lane) = lanes.join_next().await {
        ran &= lane.unwrap();
    }
    ran
}

#[expect(clippy::print_stderr, reason = "who reads that it passed should know why")]
fn skipped(ran: bool) {
    if !ran {
        eprintln!("skipped: no file system can be mounted here");
    }
}
