//! The command line: what a person or a script may ask of the program, and the exit codes.
//!
//! stdout is data (or, under `serve`, the protocol alone); everything else goes to stderr.

mod bots;
#[cfg(feature = "preview")]
mod demo;
mod doctor;
#[cfg(feature = "preview")]
mod preview;
mod serve;
mod sign_in;
#[cfg(feature = "preview")]
mod simulate;
mod standard;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tracing::field::Field;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Config, Overrides};
use crate::disk::{self, DiskError};
use crate::service::BuildError;

/// Everything went well.
pub const OK: u8 = 0;
/// Something failed.
pub const FAILURE: u8 = 1;
/// The call itself is wrong.
pub const USAGE: u8 = 2;
/// Nobody is signed in.
pub const NOT_SIGNED_IN: u8 = 3;

/// The Grok Bot record provider for Coda.
#[derive(Debug, Parser)]
#[command(name = "coda-grok-bot", version, about, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args, Debug)]
struct Common {
    /// The data folder (else CODA_PLUGIN_DATA, else the platform's)
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
    /// What to log on stderr: error, warn, info, debug, trace, off, or TARGET=LEVEL, separated by commas (else RUST_LOG, else warn)
    #[arg(long, value_name = "LEVEL", global = true)]
    log: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The provider over stdio: what Coda starts
    Serve {
        /// Dial a host instead: ws:// on loopback
        #[arg(long, value_name = "URL")]
        connect: Option<String>,
    },
    /// The provider with a page in the browser as its host
    #[cfg(feature = "preview")]
    Preview {
        /// Against the embedded simulated service: nothing needs an account
        #[arg(long)]
        demo: bool,
        /// The page's port on 127.0.0.1 (0: the one of the last time, else any)
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// Sign in by a link
    SignIn {
        /// JSON lines for scripts
        #[arg(long)]
        json: bool,
    },
    /// Delete the stored sign-in
    SignOut {
        /// JSON for scripts
        #[arg(long)]
        json: bool,
    },
    /// Who is signed in
    Status {
        /// JSON for scripts
        #[arg(long)]
        json: bool,
    },
    /// The account's Bots
    Bots {
        /// JSON lines for scripts
        #[arg(long)]
        json: bool,
    },
    /// A Bot's newest messages
    Read {
        /// Its name or id
        bot: String,
        /// Go on with what comes
        #[arg(long)]
        follow: bool,
        /// How many to begin with, from 1 to 500
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// JSON lines for scripts
        #[arg(long)]
        json: bool,
    },
    /// Post a text to a Bot
    Post {
        /// Its name or id
        bot: String,
        /// The text
        text: String,
        /// JSON for scripts
        #[arg(long)]
        json: bool,
    },
    /// The simulated service, the provider and a small host in this terminal
    #[cfg(feature = "preview")]
    Demo,
    /// The simulated service alone, for other clients
    #[cfg(feature = "preview")]
    Simulate {
        /// Its port on 127.0.0.1 (0: any)
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// The Bots only react: nothing happens by itself
        #[arg(long)]
        still: bool,
    },
    /// What works and what doesn't, with what to do
    Doctor {
        /// JSON for a support request: no text, no token
        #[arg(long)]
        json: bool,
    },
}

/// Why a command ended badly. The message is for a person.
#[derive(Debug, thiserror::Error)]
enum Problem {
    /// Exit code 1.
    #[error("{0}")]
    Failure(String),
    /// Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Exit code 3.
    #[error("还没有登录或登录已失效，请先运行 coda-grok-bot sign-in。")]
    NotSignedIn,
}

impl Problem {
    /// The data folder can't be used.
    fn folder(error: &DiskError) -> Self {
        Self::Failure(format!("数据目录无法使用：{}", error.sentence()))
    }

    fn code(&self) -> u8 {
        match self {
            Self::Failure(_) => FAILURE,
            Self::Usage(_) => USAGE,
            Self::NotSignedIn => NOT_SIGNED_IN,
        }
    }
}

impl From<BuildError> for Problem {
    fn from(error: BuildError) -> Self {
        Self::Usage(error.to_string())
    }
}

type Outcome = Result<(), Problem>;

/// Runs the program: parses the command line, runs the command, maps its end to an exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // To stdout for --help and --version, to stderr else.
            let printed = error.print();
            if error.use_stderr() {
                return ExitCode::from(USAGE);
            }
            let fault = printed.err().and_then(|error| terminal::unwritten(&error));
            return ExitCode::from(ended(Ok(()), fault));
        }
    };
    ExitCode::from(ended(run(cli), terminal::fault()))
}

/// Says what went wrong, with the command or with writing down what it gave, and gives the exit code.
fn ended(outcome: Outcome, fault: Option<String>) -> u8 {
    match (outcome, fault) {
        (Ok(()), None) => OK,
        // What was to be done is done: a message that was posted must not be taken for one that wasn't.
        (Ok(()), Some(fault)) => {
            terminal::complain(&format!("命令已正常结束，只是{fault}"));
            FAILURE
        }
        (Err(problem), fault) => {
            terminal::complain(&problem.to_string());
            if let Some(fault) = fault {
                terminal::complain(&fault);
            }
            problem.code()
        }
    }
}

fn run(cli: Cli) -> Outcome {
    start_log(cli.common.log.as_deref())?;
    // One thread does all: the loop, the hosts and the sockets wait most of the time, and the disk has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Problem::Failure(format!("无法启动：{error}")))?;
    let outcome = runtime.block_on(command(cli));
    // A thread that hangs on its disk, or one that reads a terminal, must not keep the process.
    runtime.shutdown_background();
    outcome
}

async fn command(cli: Cli) -> Outcome {
    let data_dir = cli.common.data_dir;
    let config = || config(Overrides { data_dir: data_dir.clone(), ..Overrides::default() });
    // Else a sign-in in a folder that can't be used would look like none.
    let usable = || {
        let config = config()?;
        disk::check_folder(&config.data_dir).map_err(|error| Problem::folder(&error))?;
        Ok::<_, Problem>(config)
    };
    match cli.command {
        Command::Serve { connect } => serve::serve(&config()?, connect).await,
        #[cfg(feature = "preview")]
        Command::Preview { demo, port } => preview::preview(data_dir, demo, port).await,
        Command::SignIn { json } => sign_in::sign_in(&usable()?, json).await,
        Command::SignOut { json } => sign_in::sign_out(&usable()?, json).await,
        Command::Status { json } => sign_in::status(&usable()?, json).await,
        Command::Bots { json } => bots::list(&usable()?, json).await,
        Command::Read { bot, follow, limit, json } => bots::read(&usable()?, &bot, follow, limit, json).await,
        Command::Post { bot, text, json } => bots::post(&usable()?, &bot, &text, json).await,
        #[cfg(feature = "preview")]
        Command::Demo => Box::pin(demo::demo()).await,
        #[cfg(feature = "preview")]
        Command::Simulate { port, still } => simulate::simulate(port, still).await,
        Command::Doctor { json } => doctor::doctor(&config()?, json).await,
    }
}

fn start_log(level: Option<&str>) -> Outcome {
    // Set for all programs of its kind, and perhaps by whoever started Coda: one that is none of ours keeps nothing from starting.
    let variable = std::env::var_os("RUST_LOG").filter(|filter| level.is_none() && !filter.is_empty());
    let chosen = match level {
        Some(level) => Some(log_filter(level).ok_or_else(|| {
            let forms = "可用 error、warn、info、debug、trace、off，或用逗号分隔的「目标=级别」";
            Problem::Usage(format!("--log 的值「{level}」不是日志级别，也不是过滤规则；{forms}。"))
        })?),
        None => variable.as_ref().and_then(|filter| log_filter(filter.to_str()?)),
    };
    let refused = variable.filter(|_| chosen.is_none());
    let filter = chosen.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    // stdout is data. There are no colours, also in a terminal: this build of the library has none, and to ask for them is an error.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .fmt_fields(format::debug_fn(field).delimited(" "));
    tracing_subscriber::registry().with(lines).with(filter).init();
    if let Some(filter) = refused {
        tracing::warn!(?filter, "RUST_LOG is neither a level nor a filter: warnings are logged");
    }
    Ok(())
}

/// A level, or levels of targets: `debug`, `warn,coda_grok_bot=trace`. The parser of [`Targets`] takes every other word for the name of a target, a
/// misspelt level too.
fn log_filter(text: &str) -> Option<Targets> {
    text.split(',').try_fold(Targets::new(), |filter, part| match part.split_once('=') {
        None => Some(filter.with_default(log_level(part)?)),
        Some((target, level)) => {
            let target = target.trim();
            let named = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
            let whole = target.split("::").all(|name| !name.is_empty() && name.chars().all(named));
            Some(filter.with_target(whole.then_some(target)?, log_level(level)?))
        }
    })
}

fn log_level(text: &str) -> Option<LevelFilter> {
    // The parser takes no text at all for one, too.
    let text = text.trim();
    if text.is_empty() { None } else { text.parse().ok() }
}

/// Writes one field of a log line. What the service or a host named with a line break in it must not look like a line of ours.
fn field(writer: &mut format::Writer<'_>, field: &Field, value: &dyn std::fmt::Debug) -> std::fmt::Result {
    let text = format!("{value:?}");
    if field.name() != "message" {
        write!(writer, "{}=", field.name())?;
    }
    for c in text.chars() {
        if c.is_control() {
            write!(writer, "{}", c.escape_default())?;
        } else {
            writer.write_char(c)?;
        }
    }
    Ok(())
}

/// The configuration of this process.
fn config(overrides: Overrides) -> Result<Config, Problem> {
    Config::from_process(overrides).map_err(|error| Problem::Usage(error.to_string()))
}
