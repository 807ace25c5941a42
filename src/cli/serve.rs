//! `serve`: the provider, until it is told to stop.

use futures_util::future::select_all;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::standard::Standard;
use super::{Outcome, Problem};
use crate::config::Config;
use crate::host::ws::ConnectError;
use crate::host::{self, End, Role};
use crate::platform;
use crate::service::{IndexPlace, Provider, with_folder};

/// Runs `work`; SIGTERM, SIGINT and SIGHUP (the terminal was closed) cancel `stop`, which ends it.
pub(super) async fn with_signals<T>(stop: CancellationToken, work: impl Future<Output = T>) -> T {
    // Listened for before the work says anything: whoever reads it may send one.
    let heard = listen();
    let signals = async {
        match heard {
            Ok(mut heard) => {
                select_all(heard.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
                stop.cancel();
            }
            Err(error) => tracing::warn!(%error, "signals can't be listened for"),
        }
    };
    tokio::pin!(work, signals);
    let mut listening = true;
    loop {
        tokio::select! {
            value = &mut work => return value,
            () = &mut signals, if listening => listening = false,
        }
    }
}

fn listen() -> std::io::Result<Vec<Signal>> {
    let mut kinds = vec![SignalKind::terminate(), SignalKind::interrupt()];
    // Under `nohup` a terminal that is closed ends nothing, and to listen would undo that.
    if !platform::hangup_is_ignored() {
        kinds.push(SignalKind::hangup());
    }
    kinds.into_iter().map(signal).collect()
}

pub(super) async fn serve(config: &Config, connect: Option<String>) -> Outcome {
    config.create_data_dir().map_err(|error| Problem::folder(&error))?;
    let provider = Provider::new(config, IndexPlace::Folder)?;
    let stop = CancellationToken::new();
    let mut standard = Standard::default();
    let session = with_folder(provider, &config.data_dir, |gate| async {
        let settings = host::Config { role: Role::Owner, ready: gate.ready(), stop: stop.clone() };
        match connect {
            None => Ok(host::stdio::serve(standard.input(), standard.output(), settings).await),
            Some(url) => match host::ws::connect(&url).await {
                Ok(socket) => Ok(host::ws::serve(socket, settings).await),
                Err(error @ ConnectError::Address(_)) => Err(Problem::Usage(error.to_string())),
                Err(error) => Err(Problem::Failure(error.to_string())),
            },
        }
    });
    match Box::pin(with_signals(stop.clone(), session)).await? {
        End::Closed | End::Stopped => Ok(()),
        End::Unwritten(error) => Err(Problem::Failure(format!("无法写给宿主：{error}。"))),
        End::GivenUp(unavailable) => Err(Problem::Failure(unavailable.message)),
    }
}
