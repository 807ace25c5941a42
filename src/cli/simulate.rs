//! `simulate`: the simulated service alone; and what the commands that use it share.

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::serve::with_signals;
use super::{Outcome, Problem, terminal};
use crate::config::{Config, Overrides};
use crate::simulate::{Options, Simulation};

pub(super) async fn simulate(port: u16, still: bool) -> Outcome {
    let mut options = Options { port, ..Options::demo() };
    if let Some(behaviour) = options.behaviour.as_mut().filter(|_| still) {
        behaviour.scenes = None;
    }
    let service = start(options).await?;
    let stop = CancellationToken::new();
    let work = async {
        terminal::say(&format!("GROK_BOT_BACKEND_URL={}", service.base_url()));
        terminal::say(&format!("GROK_BOT_WEBSITE_URL={}", service.website_url()));
        terminal::say(&format!("x-control-key: {}", service.control_key()));
        // Addresses that couldn't be written down are of no use to anybody. A reader that went away may have them.
        if terminal::fault().is_none() {
            stop.cancelled().await;
        }
    };
    with_signals(stop.clone(), work).await;
    service.stop().await;
    Ok(())
}

/// Starts the simulated service.
pub(super) async fn start(options: Options) -> Result<Simulation, Problem> {
    let port = options.port;
    let failed = |error| Problem::Failure(format!("模拟服务无法在 127.0.0.1:{port} 上启动：{error}。"));
    Simulation::start(options).await.map_err(failed)
}

/// The configuration of this process, against a simulated service.
pub(super) fn config(data_dir: Option<PathBuf>, service: &Simulation) -> Result<Config, Problem> {
    let (backend, website) = (Some(service.base_url()), Some(service.website_url()));
    super::config(Overrides { data_dir, backend, website })
}
