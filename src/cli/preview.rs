//! `preview`: the provider with a page in the browser as its host.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::demo::Folder;
use super::serve::with_signals;
use super::simulate;
use super::{Outcome, Problem, config, terminal};
use crate::config::{Config, Overrides};
use crate::preview::{BindError, Kept, Options, Preview};
use crate::service::{Gate, IndexPlace, Provider, with_folder};
use crate::simulate::Options as ServiceOptions;

pub(super) async fn preview(data_dir: Option<PathBuf>, demo: bool, port: u16) -> Outcome {
    if !demo {
        return Box::pin(run(&config(Overrides { data_dir, ..Overrides::default() })?, false, port)).await;
    }
    let service = simulate::start(ServiceOptions::demo()).await?;
    // A folder of its own, unless one is named: the demonstration's account and index are nobody's.
    let own = data_dir.is_none().then(Folder::new);
    let folder = data_dir.or_else(|| own.as_ref().map(|own| own.0.clone()));
    let outcome = Box::pin(run(&simulate::config(folder, &service)?, true, port)).await;
    service.stop().await;
    outcome
}

async fn run(config: &Config, demo: bool, port: u16) -> Outcome {
    config.create_data_dir().map_err(|error| Problem::folder(&error))?;
    let provider = Provider::new(config, IndexPlace::Folder)?;
    let kept = Kept::of(&config.data_dir);
    let page = bind(&kept, demo, port).await?;
    let kept = Arc::new(Keeping { kept, port: page.port(), done: OnceCell::new() });
    let stop = CancellationToken::new();
    let hosts = Box::pin(async {
        if demo {
            terminal::say("模拟服务和插件都在这里运行，不需要账号，也不会连接任何真实服务。");
        }
        terminal::say(&format!("在浏览器里打开：{}", page.link()));
        terminal::say("链接里的钥匙只给你自己用。按 Ctrl+C 结束。");
        if terminal::fault().is_some() {
            // Nobody has the link. A reader that went away may have it.
            return Ok(());
        }
        let hosts = |gate: Gate| {
            let ready = move || {
                let (gate, kept) = (gate.clone(), Arc::clone(&kept));
                async move {
                    let handle = gate.ready().await?;
                    kept.keep().await;
                    Ok(handle)
                }
            };
            page.run(ready, stop.clone())
        };
        with_folder(provider, &config.data_dir, hosts).await
    });
    with_signals(stop.clone(), hosts).await.map_err(|unavailable| Problem::Failure(unavailable.message))
}

/// The page's key and port, to be kept once: when the folder is ours. A preview beside another one must not take the way back from that one's page.
struct Keeping {
    kept: Kept,
    port: u16,
    done: OnceCell<()>,
}

impl Keeping {
    async fn keep(self: Arc<Self>) {
        let keeping = Arc::clone(&self);
        let keep = async || {
            // A panic there is logged by whoever panics; the page is served all the same.
            let _ = tokio::task::spawn_blocking(move || keeping.kept.keep(keeping.port)).await;
        };
        self.done.get_or_init(keep).await;
    }
}

/// Listens on the port that was asked for; else on the one of the last time, where it is free, so that a page that is still open comes back.
async fn bind(kept: &Kept, demo: bool, port: u16) -> Result<Preview, Problem> {
    let options = |port| Options { port, key: kept.key.clone(), demo };
    let failed = |error: BindError| {
        Problem::Failure(format!("预览页无法在 127.0.0.1:{} 上启动：{}。", error.port, error.source))
    };
    if port == 0
        && kept.port != 0
        && let Ok(page) = Preview::bind(options(kept.port)).await
    {
        return Ok(page);
    }
    Preview::bind(options(port)).await.map_err(failed)
}
