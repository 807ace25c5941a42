//! A simulated Grok Bot service on loopback: the other side of the wire.
//!
//! The commands `simulate`, `demo` and `preview --demo` run it, tests use it as a library. It speaks the wire of the reference and shares no
//! code with the provider, so that it doesn't share a misunderstanding either: it builds and reads JSON by hand (`wire`), keeps transcripts
//! in `state`, the rest in `world`, and answers in `rpc`, `watch` and `signin`. `gateway` is another edge of the same state, for clients of
//! the Bots' computers. `faults` and [`Quirks`] make it misbehave, [`Control`] and the HTTP endpoint under `/control/` steer it.
//!
//! It binds 127.0.0.1 and nothing else. Whoever runs it is trusted; still a page in a browser can't steer it, for the control wants a key.

mod behave;
mod bots;
mod control;
mod control_http;
mod control_service;
mod demo;
mod faults;
mod gateway;
mod live;
mod log;
mod options;
mod replies;
mod rpc;
mod scenes;
mod secrets;
mod server;
mod signin;
mod state;
mod streams;
mod tokens;
mod watch;
mod wire;
mod world;

use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use bots::{Activity, Awaiting, Change, Live, NewBot, Stored};
pub use control::{Control, ControlError};
pub use faults::{Act, Fault, Gate, StreamEnd, StreamPlan};
pub use log::Request as LoggedRequest;
pub use options::{Account, Behaviour, Dialect, Echo, ListOrder, Options, Quirks, TokenPolicy};
pub use tokens::Pair as TokenPair;
pub use world::Received;

use server::Shared;
use world::World;

/// A running service. Dropping it ends it, with every connection and every Bot.
#[derive(Debug)]
pub struct Simulation {
    control: Control,
    port: u16,
    stopping: CancellationToken,
    tasks: JoinSet<()>,
}

impl Simulation {
    /// Binds 127.0.0.1 and begins to serve.
    ///
    /// # Errors
    /// Where the port can't be bound.
    pub async fn start(options: Options) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let port = listener.local_addr()?.port();
        let behaviour = options.behaviour.clone();
        let demo = options.demo_bots;
        let mut world = World::new(options);
        if demo {
            demo::fill(&mut world);
        }
        let mut tasks = JoinSet::new();
        let stopping = CancellationToken::new();
        let stimuli = behaviour.map(|behaviour| {
            let (sender, receiver) = mpsc::unbounded_channel();
            world.stimuli = Some(sender);
            (behaviour, receiver)
        });
        let shared = Arc::new(Shared::new(world, format!("http://127.0.0.1:{port}")));
        if let Some((behaviour, receiver)) = stimuli {
            tasks.spawn(behave::run(Arc::clone(&shared), behaviour, receiver, stopping.clone()));
        }
        tasks.spawn(server::serve(listener, Arc::clone(&shared), stopping.clone()));
        Ok(Self { control: Control::new(shared), port, stopping, tasks })
    }

    /// The address of the service itself: what `GROK_BOT_BACKEND_URL` names.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The address of the page that confirms a sign-in: what `GROK_BOT_WEBSITE_URL` names. The same listener.
    #[must_use]
    pub fn website_url(&self) -> String {
        self.base_url()
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The handle that steers it. It outlives the simulation, without effect.
    #[must_use]
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// What the HTTP control endpoint wants in the header `x-control-key`. Random for each simulation.
    #[must_use]
    pub fn control_key(&self) -> String {
        self.control.key()
    }

    /// Ends it and waits until the listener, every connection and every Bot is gone. Dropping the future half-way ends it all the same.
    pub async fn stop(mut self) {
        self.stopping.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
