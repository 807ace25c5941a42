//! The composition root: builds the rooms, gives them to each other, stops them in order.

#[cfg(test)]
mod tests;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::auth::{HttpEndpoint, Keeper, SignIn};
use crate::clock;
use crate::config::{Config, FolderLock};
use crate::connect::{AddressError, BaseUrl, Http, Reach};
use crate::host::Unavailable;
use crate::index::{Sqlite, Store};
use crate::records::{self, Handle};
use crate::upstream::{HttpUpstream, Limits, Upstream};
use crate::watch::{Parts, Quit, Watch};

/// The index's file in the data folder.
pub const INDEX: &str = "index.sqlite3";
/// Commands that may wait for the loop; past it a post is `not_sent`.
const COMMANDS: usize = 256;
/// How long the backend may take to answer at all.
const REACH: Duration = Duration::from_secs(10);
/// How long the loop may take to end once it was told to.
const END: Duration = Duration::from_secs(2);

/// Where the index is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPlace {
    /// In the data folder: for a provider that holds the folder's lock.
    Folder,
    /// In memory: for a command that takes no lock.
    Memory,
}

/// A provider that hasn't begun: its handle works (posts wait, reads say "not ready") once [`Provider::run`] is polled.
#[derive(Debug)]
pub struct Provider {
    /// For hosts.
    pub handle: Handle,
    watch: Watch,
    stop: CancellationToken,
}

/// Why a provider can't be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The backend's address isn't one.
    #[error("backend: {0}")]
    Address(#[from] AddressError),
}

/// The parts that talk to the service, without the loop: for commands that need only them.
#[derive(Clone, Debug)]
pub struct Edges {
    /// The sign-in.
    pub keeper: Arc<Keeper>,
    /// The service.
    pub upstream: Arc<dyn Upstream>,
    http: Arc<Http>,
    base: BaseUrl,
}

impl Edges {
    /// Builds them; nothing is connected and no file touched.
    ///
    /// # Errors
    /// [`BuildError::Address`].
    pub fn new(config: &Config) -> Result<Self, BuildError> {
        let reach = if config.test { Reach::Loopback } else { Reach::Anywhere };
        let http = Arc::new(Http::new(reach));
        let base = BaseUrl::parse(config.backend.as_str(), reach)?;
        let endpoint = HttpEndpoint::new(Arc::clone(&http), config.backend.clone());
        let keeper = Keeper::new(&config.data_dir, config.website.clone(), Arc::new(endpoint));
        let upstream = HttpUpstream::new(Arc::clone(&http), base.clone(), Limits::default());
        Ok(Self { keeper: Arc::new(keeper), upstream: Arc::new(upstream), http, base })
    }

    /// Whether the backend answers at all, asked without credentials, and its clock where the answer has it, in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// Why it can't be reached, for the log.
    pub async fn reach(&self) -> Result<Option<i64>, String> {
        self.http.probe(self.base.join(""), REACH).await.map_err(|error| error.to_string())
    }
}

impl Provider {
    /// Builds a provider for a resolved configuration.
    ///
    /// # Errors
    /// [`BuildError::Address`].
    pub fn new(config: &Config, index: IndexPlace) -> Result<Self, BuildError> {
        let edges = Edges::new(config)?;
        let store: Box<dyn Store> = match index {
            IndexPlace::Folder => Box::new(Sqlite::at(config.data_dir.join(INDEX))),
            IndexPlace::Memory => Box::new(Sqlite::in_memory()),
        };
        let (sender, commands) = mpsc::channel(COMMANDS);
        let (handle, publisher) = records::new(sender);
        let sign_in: Arc<dyn SignIn> = edges.keeper;
        let watch =
            Watch::new(Parts { upstream: edges.upstream, sign_in, store, publisher, commands, wall: clock::wall });
        Ok(Self { handle, watch, stop: CancellationToken::new() })
    }

    /// Stops the loop when cancelled.
    #[must_use]
    pub fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs the loop until it is told to stop. Dropping the future stops it at once.
    pub async fn run(self) -> Quit {
        let Self { watch, stop, handle } = self;
        // The loop ends when the last handle is gone: this one must not keep it.
        drop(handle);
        watch.run(stop).await
    }

    /// Runs the loop while `work` runs with its handle, then stops it and waits until posts are settled and the index is flushed.
    pub async fn during<T, F: Future<Output = T>>(self, work: impl FnOnce(Handle) -> F) -> T {
        let stop = self.stopper();
        let work = work(self.handle.clone());
        let run = async {
            self.run().await;
        };
        beside(run, stop, work).await
    }
}

/// Runs a provider as a task of its own until `work` ends; then it has [`END`] to stop. Dropped, it takes the task with it.
///
/// A task, because a frame of the stream wakes it alone then. As one future with the hosts, each frame went through their branches and through the
/// runtime's look for events as well, which took as long as the frame itself.
async fn beside<T>(
    provider: impl Future<Output = ()> + Send + 'static,
    stop: CancellationToken,
    work: impl Future<Output = T>,
) -> T {
    let mut tasks = JoinSet::new();
    tasks.spawn(provider);
    tokio::pin!(work);
    let value = loop {
        tokio::select! {
            value = &mut work => break value,
            Some(ended) = tasks.join_next() => follow(ended),
        }
    };
    stop.cancel();
    match tokio::time::timeout(END, tasks.join_next()).await {
        Ok(ended) => ended.into_iter().for_each(follow),
        Err(_) => tasks.shutdown().await,
    }
    value
}

/// A panic of the provider is a bug: it must not go unseen.
fn follow(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// Runs a provider beside its hosts: they may connect at once, the loop begins when the folder is ours.
///
/// The folder's lock is waited for from the first [`Gate::ready`] on (a host asks for it once `initialize` is answered), 5 s at most. The provider is
/// stopped when `hosts` ends.
pub async fn with_folder<T, F: Future<Output = T>>(
    provider: Provider,
    folder: &Path,
    hosts: impl FnOnce(Gate) -> F,
) -> T {
    let (state, states) = watch::channel(Folder::Waiting);
    let gate = Gate { states, wanted: Arc::new(Notify::new()) };
    let wanted = Arc::clone(&gate.wanted);
    let stop = provider.stopper();
    let (folder, given_up) = (folder.to_owned(), stop.clone());
    let work = async move {
        let lock = async {
            wanted.notified().await;
            FolderLock::acquire(&folder).await
        };
        // Hosts that end before the folder is ours have nothing to wait for.
        let lock = tokio::select! {
            () = given_up.cancelled() => return,
            lock = lock => lock,
        };
        match lock {
            Ok(lock) => {
                state.send_replace(Folder::Ours(provider.handle.clone()));
                provider.run().await;
                drop(lock);
            }
            Err(error) => {
                tracing::error!(%error, "the data folder can't be used");
                state.send_replace(Folder::GivenUp(Unavailable { message: error.sentence() }));
            }
        }
    };
    beside(work, stop, hosts(gate)).await
}

/// Whose the data folder is.
#[derive(Clone, Debug)]
enum Folder {
    /// Somebody's; it is waited for.
    Waiting,
    /// Ours: here is the handle.
    Ours(Handle),
    /// Somebody else's for good.
    GivenUp(Unavailable),
}

/// Where host sessions wait for the folder. Cheap to clone, one a session.
#[derive(Clone, Debug)]
pub struct Gate {
    states: watch::Receiver<Folder>,
    wanted: Arc<Notify>,
}

impl Gate {
    /// Resolves with the handle when the folder is ours.
    ///
    /// # Errors
    /// [`Unavailable`] says who holds the folder, when it was given up.
    pub async fn ready(mut self) -> Result<Handle, Unavailable> {
        self.wanted.notify_one();
        match self.states.wait_for(|state| !matches!(state, Folder::Waiting)).await.as_deref() {
            Ok(Folder::Ours(handle)) => Ok(handle.clone()),
            Ok(Folder::GivenUp(unavailable)) => Err(unavailable.clone()),
            Ok(Folder::Waiting) | Err(_) => {
                Err(Unavailable { message: "插件正在停止，请稍后重试。".to_owned() })
            }
        }
    }
}
