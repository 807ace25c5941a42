//! Whole processes: the built binary's CPU, memory and delays, against the floor and against peers.
//!
//! `cargo bench --bench process -- [OPTION…] [SECTION…]`. Sections, all of them without a name: `list` and `live` (CPU and peaks against the floor and
//! the peers), `start`, `stdio`, `delay`, `idle`. Options: `--rounds N` (5), `--rows N` (10,000 rows a Bot in a list), `--live-rows N` (100,000),
//! `--long N` (1,000,000 rows of the long record), `--idle SECONDS` (120), `--peers` (installed by benches/peers/install.sh). The variable
//! `CODA_GROK_BOT_BINARY` names the binary to measure; without it, it is the one that `cargo bench` built, into which the features of the dependencies
//! of tests are linked.

mod child;
#[path = "../support/data.rs"]
mod data;
mod floor;
mod flow;
#[path = "../support/http.rs"]
mod http;
mod idle;
mod provider;
#[path = "../support/row.rs"]
mod row;
mod rows;
mod server;
mod service;
#[path = "../support/sign_in.rs"]
mod sign_in;
#[path = "../support/stats.rs"]
mod stats;
mod sync;
mod waits;

use std::error::Error;
use std::io;
use std::process::ExitCode;

use service::Service;
use stats::{progress, say};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What the command line says.
#[derive(Debug)]
struct Options {
    rounds: usize,
    rows: usize,
    live_rows: usize,
    long: usize,
    idle: usize,
    peers: bool,
    sections: Vec<String>,
}

impl Options {
    fn parse(arguments: Vec<String>) -> Result<Self> {
        let mut options = Self {
            rounds: 5,
            rows: 10_000,
            live_rows: 100_000,
            long: 1_000_000,
            idle: 120,
            peers: false,
            sections: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut number = || -> Result<usize> { Ok(arguments.next().ok_or("a number is missing")?.parse()?) };
            match argument.as_str() {
                "--rounds" => options.rounds = number()?,
                "--rows" => options.rows = number()?,
                "--live-rows" => options.live_rows = number()?,
                "--long" => options.long = number()?,
                "--idle" => options.idle = number()?,
                "--peers" => options.peers = true,
                // What cargo says to every benchmark.
                "--bench" => {}
                name if SECTIONS.contains(&name) => options.sections.push(argument),
                other => return Err(format!("what is {other}? Sections: {}", SECTIONS.join(", ")).into()),
            }
        }
        Ok(options)
    }

    fn wants(&self, section: &str) -> bool {
        self.sections.is_empty() || self.sections.iter().any(|named| named == section)
    }
}

const SECTIONS: &[&str] = &["list", "live", "start", "stdio", "delay", "idle"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("server") => server::run().map_err(Into::into),
        Some("floor") => floor_process(&arguments[1..]),
        _ => Options::parse(arguments).and_then(|options| bench(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            progress(&format!("process: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Reads everything, says so, and waits to be looked at.
fn floor_process(arguments: &[String]) -> Result<()> {
    let [base, rows @ ..] = arguments else { return Err("floor BASE [ROWS]".into()) };
    let rows = rows.first().map(|rows| rows.parse()).transpose()?;
    say(&format!("ready {}", floor::run(base, rows)?));
    io::stdin().lines().for_each(drop);
    Ok(())
}

fn bench(options: &Options) -> Result<()> {
    if cfg!(debug_assertions) {
        say("**A debug build: it shows that the benchmark runs, and no figure of it means anything.**");
    }
    let mut service = Service::start()?;
    if options.wants("list") || options.wants("live") {
        sync::run(options, &mut service)?;
    }
    if options.wants("start") {
        waits::start(&mut service)?;
    }
    if options.wants("stdio") {
        waits::stdio(options, &mut service)?;
    }
    if options.wants("delay") {
        waits::delay(options, &mut service)?;
    }
    if options.wants("idle") {
        idle::run(options, &mut service)?;
    }
    Ok(())
}
