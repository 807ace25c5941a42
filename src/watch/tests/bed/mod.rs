//! A whole provider on a paused clock: the real loop and records between a small scripted service, a sign-in, an index and a host, all in memory.
//!
//! Nothing here sleeps to be safe: the clock moves only where a test says so, and whatever is due on the way happens in order.

mod calls;
pub(crate) mod clock;
pub(crate) mod fault;
pub(crate) mod frames;
pub(crate) mod host;
pub(crate) mod rows;
pub(crate) mod service;
pub(crate) mod sign_in;
pub(crate) mod store;
pub(crate) mod transcript;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::records;
use crate::watch::{Parts, Quit, Watch};
use host::Host;
use service::Service;
use sign_in::Desk;
use store::Shelf;

pub(crate) const ANN: &str = "sub-ann";
pub(crate) const BEN: &str = "sub-ben";

/// The provider and everything around it.
#[derive(Debug)]
pub(super) struct Bed {
    pub(super) service: Arc<Service>,
    pub(super) desk: Arc<Desk>,
    pub(super) shelf: Shelf,
    pub(super) host: Host,
    stop: CancellationToken,
    running: JoinSet<Quit>,
}

impl Bed {
    /// Ann is signed in and has these Bots, each with an empty transcript; the loop isn't started.
    pub(super) fn idle(bots: &[&str]) -> Self {
        clock::reset();
        let service = Service::new();
        service.account(ANN, "1001");
        for bot in bots {
            service.add_bot(ANN, bot);
        }
        let desk = Desk::signed_in(ANN);
        Self::over(service, desk, Shelf::new())
    }

    /// The same, running.
    pub(super) fn start(bots: &[&str]) -> Self {
        let mut bed = Self::idle(bots);
        bed.run();
        bed
    }

    fn over(service: Arc<Service>, desk: Arc<Desk>, shelf: Shelf) -> Self {
        // Nobody listens before `run`.
        let (commands, _) = mpsc::channel(1);
        let host = Host::new(records::new(commands).0);
        Self { service, desk, shelf, host, stop: CancellationToken::new(), running: JoinSet::new() }
    }

    /// Starts the loop, with a new host.
    pub(super) fn run(&mut self) {
        let (sender, commands) = mpsc::channel(256);
        let (handle, publisher) = records::new(sender);
        self.host = Host::new(handle);
        self.stop = CancellationToken::new();
        let watch = Watch::new(Parts {
            upstream: Arc::clone(&self.service) as _,
            sign_in: Arc::clone(&self.desk) as _,
            store: Box::new(self.shelf.clone()),
            publisher,
            commands,
            wall: clock::wall,
        });
        let stop = self.stop.clone();
        self.running.spawn(watch.run(stop));
    }

    /// Stops it as a signal does and waits for its end.
    pub(super) async fn stop(&mut self) -> Quit {
        self.stop.cancel();
        self.ended().await
    }

    /// Waits for the loop's end.
    pub(super) async fn ended(&mut self) -> Quit {
        self.running.join_next().await.unwrap().unwrap()
    }

    /// Drops the loop where it stands, as a crash does.
    pub(super) async fn crash(&mut self) {
        self.running.shutdown().await;
    }

    /// The last host goes.
    pub(super) fn abandon(&mut self) {
        let (commands, _) = mpsc::channel(1);
        self.host = Host::new(records::new(commands).0);
    }

    /// Lets time pass; all that is due happens.
    pub(super) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(super) async fn secs(&self, secs: u64) {
        self.pass(Duration::from_secs(secs)).await;
    }

    pub(super) async fn millis(&self, millis: u64) {
        self.pass(Duration::from_millis(millis)).await;
    }

    /// Waits until a condition holds, in steps of 10 ms; fails after ten minutes.
    pub(super) async fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        for _ in 0..60_000 {
            if holds(self) {
                return;
            }
            self.millis(10).await;
        }
        panic!("in ten minutes it never came to: {what}");
    }

    /// The same, and the Bot's record can be read.
    pub(super) async fn opened(&self, bot: &str) {
        self.until("the record opens", |bed| bed.host.readable(bot)).await;
    }

    /// Waits until the stream is up and every Bot's record can be read.
    pub(super) async fn up(&self) {
        self.until("all is up", |bed| {
            bed.service.open_streams() == 1 && {
                let records = bed.host.bots();
                !records.is_empty() && records.iter().all(|bot| bed.host.readable(bot))
            }
        })
        .await;
    }
}
