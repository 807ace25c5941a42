//! `serve`, `simulate`: what runs until it is told to stop.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{Outcome, Problem, terminal};
use crate::config::Config;
use crate::host::ws::ConnectError;
use crate::host::{self, End, Role};
use crate::service::{IndexPlace, Provider, with_folder};
use crate::simulate::{Options, Simulation};

/// Runs `work`; SIGTERM and SIGINT cancel `stop`, which ends it.
pub(super) async fn with_signals<T>(stop: CancellationToken, work: impl Future<Output = T>) -> T {
    let signals = async {
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(mut terminate), Ok(mut interrupt)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                stop.cancel();
            }
            (Err(error), _) | (_, Err(error)) => tracing::warn!(%error, "signals can't be listened for"),
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

pub(super) async fn serve(config: &Config, connect: Option<String>) -> Outcome {
    config.create_data_dir().map_err(|error| Problem::folder(&error))?;
    let provider = Provider::new(config, IndexPlace::Folder)?;
    let stop = CancellationToken::new();
    let session = with_folder(provider, &config.data_dir, |gate| async {
        let settings = host::Config { role: Role::Owner, ready: gate.ready(), stop: stop.clone() };
        match connect {
            None => Ok(host::stdio::serve(tokio::io::stdin(), tokio::io::stdout(), settings).await),
            Some(url) => match host::ws::connect(&url).await {
                Ok(socket) => Ok(host::ws::serve(socket, settings).await),
                Err(error @ ConnectError::Address(_)) => Err(Problem::Usage(error.to_string())),
                Err(error) => Err(Problem::Failure(error.to_string())),
            },
        }
    });
    match Box::pin(with_signals(stop.clone(), session)).await? {
        End::Closed | End::Stopped => Ok(()),
        End::GivenUp(unavailable) => Err(Problem::Failure(unavailable.message)),
    }
}

pub(super) async fn simulate(port: u16, still: bool) -> Outcome {
    let mut options = Options { port, ..Options::demo() };
    if let Some(behaviour) = options.behaviour.as_mut().filter(|_| still) {
        behaviour.scenes = None;
    }
    let service = start(options).await?;
    terminal::say(&format!("GROK_BOT_BACKEND_URL={}", service.base_url()));
    terminal::say(&format!("GROK_BOT_WEBSITE_URL={}", service.website_url()));
    terminal::say(&format!("x-control-key: {}", service.control_key()));
    let stop = CancellationToken::new();
    with_signals(stop.clone(), stop.cancelled()).await;
    service.stop().await;
    Ok(())
}

/// Starts the simulated service.
pub(super) async fn start(options: Options) -> Result<Simulation, Problem> {
    let port = options.port;
    let failed = |error| Problem::Failure(format!("模拟服务无法在 127.0.0.1:{port} 上启动：{error}。"));
    Simulation::start(options).await.map_err(failed)
}
