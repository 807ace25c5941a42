//! The whole provider and everything around it: the real loop, records, index and sessions between a service in memory and hosts that speak JSON.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{advance, sleep};
use tokio_util::sync::CancellationToken;

use super::disk::Disk;
use super::history::History;
use super::host::Host;
use super::model::Ledger;
use super::net::{Net, Weather};
use crate::host::{Config, End, Role, pair};
use crate::model::Wall;
use crate::records::{self, Handle};
use crate::service::COMMANDS;
use crate::watch::tests::bed::service::Service;
use crate::watch::tests::bed::sign_in::Desk;
use crate::watch::tests::bed::{ANN, BEN, clock};
use crate::watch::{Parts, Quit, Watch};

/// Ann's Bots.
pub(super) const HERS: [&str; 3] = ["a", "b", "c"];
/// Ben's.
pub(super) const HIS: &str = "x";

/// How long a stop may take.
const STOP: u64 = 2_000;

/// Turns of the loop within one millisecond after which it is taken to turn for ever: on a paused clock nothing else would ever happen.
const SPINS: u32 = 20_000;

thread_local! {
    static TURNS: Cell<(i64, u32)> = const { Cell::new((0, 0)) };
}

/// The wall clock as the loop reads it, once a turn.
fn wall() -> Wall {
    let wall = clock::wall();
    let (at, turns) = TURNS.get();
    let turns = if at == wall.0 { turns + 1 } else { 0 };
    TURNS.set((wall.0, turns));
    assert!(turns < SPINS, "the loop turns without a pause");
    wall
}

/// One run's world.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) history: History,
    pub(super) ledger: Ledger,
    pub(super) service: Arc<Service>,
    pub(super) net: Arc<Net>,
    pub(super) desk: Arc<Desk>,
    pub(super) disk: Disk,
    pub(super) hosts: Vec<Host>,
    pub(super) provider: Option<Provider>,
    /// The hosts' own tasks.
    lives: JoinSet<()>,
    /// Rows that still are there, by Bot, with the texts that they had.
    pub(super) rows: BTreeMap<&'static str, Vec<(u64, Vec<String>)>>,
    /// Questions, by Bot.
    pub(super) questions: BTreeMap<&'static str, Vec<(u64, String)>>,
    pub(super) step: u32,
    pub(super) requests: u32,
}

/// One life of the provider.
pub(super) struct Provider {
    pub(super) handle: Option<Handle>,
    stop: CancellationToken,
    watch: JoinSet<Quit>,
    sessions: JoinSet<End>,
    stops: Vec<CancellationToken>,
}

/// How it is told to stop.
#[derive(Clone, Copy, Debug)]
pub(super) enum StopBy {
    /// The owner asks for it.
    Shutdown,
    /// The owner's connection ends.
    Close,
    /// A signal.
    Signal,
    /// Every host goes.
    Abandon,
}

impl Drop for World {
    fn drop(&mut self) {
        // Whatever ends the run: the runtime waits for the disk's thread.
        self.disk.over();
    }
}

impl World {
    pub(super) fn new(mut rng: Rng, disk: Disk, ledger: Ledger, history: History, weather: Weather) -> Self {
        clock::reset();
        let service = Service::new();
        for (subject, id) in [(ANN, "1001"), (BEN, "1002")] {
            service.account(subject, id);
        }
        for bot in HERS {
            service.add_bot(ANN, bot);
        }
        service.add_bot(BEN, HIS);
        if rng.bool() {
            service.page_limit(rng.u32(1..6));
        }
        let net = Net::new(Arc::clone(&service), rng.fork(), weather, history.clone());
        let hosts = (0..rng.usize(1..4))
            .map(|number| Host::new(&format!("h{number}"), rng.fork(), ledger.clone(), history.clone()))
            .collect();
        Self {
            history,
            ledger,
            service,
            net,
            desk: Desk::signed_in(ANN),
            disk,
            hosts,
            provider: None,
            lives: JoinSet::new(),
            rows: BTreeMap::new(),
            questions: BTreeMap::new(),
            step: 0,
            requests: 0,
            rng,
        }
    }

    /// Begins a life of the provider, and connects some hosts at least.
    pub(super) fn start(&mut self) {
        self.history.note("the provider starts");
        let (sender, commands) = mpsc::channel(COMMANDS);
        let (handle, publisher) = records::new(sender);
        let stop = CancellationToken::new();
        let watch = Watch::new(Parts {
            upstream: Arc::clone(&self.net) as _,
            sign_in: Arc::clone(&self.desk) as _,
            store: Box::new(self.disk.clone()),
            publisher,
            commands,
            wall,
        });
        let mut running = JoinSet::new();
        running.spawn(watch.run(stop.clone()));
        let sessions = JoinSet::new();
        self.provider = Some(Provider { handle: Some(handle), stop, watch: running, sessions, stops: vec![] });
        self.connect(0);
        for host in 1..self.hosts.len() {
            if self.rng.bool() {
                self.connect(host);
            }
        }
    }

    /// Connects a host that isn't. The first one is the owner.
    pub(super) fn connect(&mut self, host: usize) {
        let Some(provider) = &mut self.provider else { return };
        let Some(handle) = provider.handle.clone() else { return };
        let state = &self.hosts[host];
        if state.lock().connected {
            return;
        }
        let (transport, far) = pair();
        let lock = Duration::from_millis(if self.rng.u8(0..4) == 0 { self.rng.u64(0..1_500) } else { 0 });
        let ready = async move {
            sleep(lock).await;
            Ok(handle)
        };
        let role = if host == 0 { Role::Owner } else { Role::Guest };
        let stop = CancellationToken::new();
        provider.stops.push(stop.clone());
        provider.sessions.spawn(crate::host::run(transport, Config { role, ready, stop }));
        state.with(super::host::State::connect);
        self.lives.spawn(state.clone().live(far));
    }

    /// Nobody told the loop to end, so it hasn't, not even by a panic.
    pub(super) fn goes_on(&mut self) {
        let ended = self.provider.as_mut().and_then(|provider| provider.watch.try_join_next());
        self.history.hold(ended.is_none(), || format!("the loop ended by itself: {ended:?}"));
    }

    /// Lets time pass. While a write is stuck tokio's clock is moved by hand, because it doesn't move by itself.
    pub(super) async fn pass(&self, millis: u64) {
        let mut left = millis;
        while self.disk.is_stuck() && left > 0 {
            let step = left.min(25);
            advance(Duration::from_millis(step)).await;
            for _ in 0..12 {
                yield_now().await;
            }
            left -= step;
        }
        if left > 0 {
            sleep(Duration::from_millis(left)).await;
        }
    }

    /// The process dies where it stands.
    pub(super) async fn crash(&mut self) {
        let Some(mut provider) = self.provider.take() else { return };
        self.history.note("the provider crashes");
        // All of it in one moment: no session lives to tell that the loop is gone.
        provider.sessions.abort_all();
        provider.watch.abort_all();
        provider.sessions.shutdown().await;
        provider.watch.shutdown().await;
        drop(provider);
        self.ended().await;
    }

    /// It is told to stop, and does.
    pub(super) async fn stop(&mut self, by: StopBy) {
        let Some(mut provider) = self.provider.take() else { return };
        self.history.note(format_args!("the provider is told to stop: {by:?}"));
        let owner = self.hosts[0].lock().connected;
        match by {
            StopBy::Shutdown | StopBy::Close if owner => self.hosts[0].with(|host| {
                if matches!(by, StopBy::Shutdown) {
                    host.shut_down();
                }
                host.close();
                // One that doesn't read its last answers isn't waited for, but it is to be judged by them.
                host.hurry();
            }),
            StopBy::Abandon => {
                // An owner that goes stops it by itself.
                provider.handle = None;
                for host in &self.hosts {
                    host.with(super::host::State::close);
                }
            }
            _ => {
                provider.stop.cancel();
                provider.stops.iter().for_each(CancellationToken::cancel);
            }
        }
        self.stopped(&mut provider).await;
        drop(provider);
        self.ended().await;
        self.history.hold(self.service.calls_now() == 0, || "a call goes on after the stop".to_owned());
        self.history.hold(self.service.open_streams() == 0, || "a stream goes on after the stop".to_owned());
    }

    /// Waits for the loop, then for the sessions of a process that ends.
    async fn stopped(&mut self, provider: &mut Provider) {
        for _ in 0..=STOP / 25 {
            if let Some(ended) = provider.watch.try_join_next() {
                self.history.hold(ended.is_ok(), || format!("the loop ended by {ended:?}"));
                break;
            }
            if !self.hosts[0].lock().connected {
                // The process lives no longer than its owner.
                provider.stop.cancel();
            }
            self.pass(25).await;
        }
        if !provider.watch.is_empty() {
            return self.history.wrong("the loop doesn't stop");
        }
        self.history.note("the loop has stopped");
        provider.stops.iter().for_each(CancellationToken::cancel);
        for _ in 0..=STOP / 25 {
            while provider.sessions.try_join_next().is_some() {}
            if provider.sessions.is_empty() {
                return;
            }
            self.pass(25).await;
        }
        self.history.wrong("a session doesn't end");
    }

    /// What is left of a life: nothing.
    async fn ended(&mut self) {
        self.disk = self.disk.next_life();
        for host in &self.hosts {
            host.with(super::host::State::hurry);
        }
        // Every host hears of its end in this moment; only what it was told before lies between.
        for _ in 0..200 {
            while self.lives.try_join_next().is_some() {}
            if self.lives.is_empty() {
                break;
            }
            yield_now().await;
        }
        self.history.hold(self.lives.is_empty(), || "a host wasn't disconnected".to_owned());
        // What they heard last was of the life that ended, in whatever order they heard it.
        self.ledger.next_life();
        let left = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        self.history.hold(left == 0, || format!("{left} tasks are left"));
    }
}
