//! Whole processes on the same bytes: the provider against the floor and against what a user would write in Node or Python.
//!
//! One round runs each client once, in turn, so that whatever else the machine does falls on all of them; ratios are taken inside a round. CPU is user
//! and system time of the whole process, its start included.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::child::{Process, Usage, mib};
use crate::provider::{self, Provider};
use crate::service::Service;
use crate::stats::{Table, Values, float, progress, say, verdict};
use crate::{Options, Result, data, rows, server};

/// Bytes of text in a row: with its fields about 1 KiB of JSON.
const TEXT: usize = 860;

/// Rows in a frame of the stream.
const FRAMES: [usize; 3] = [1, 10, 100];

/// Peers by name: how they are started from benches/peers, and what the CPU of each must be over the provider's, for the list and for live rows.
const PEERS: &[Peer] = &[
    Peer { name: "connect-node", program: "node", script: "connect-node/mirror.mjs", list: 6.0, live: 7.0 },
    Peer { name: "node-fetch", program: "node", script: "node-fetch/mirror.mjs", list: 4.0, live: 4.0 },
    Peer {
        name: "python-httpx",
        program: "python-httpx/.venv/bin/python",
        script: "python-httpx/mirror.py",
        list: 3.3,
        live: 3.5,
    },
];

struct Peer {
    name: &'static str,
    program: &'static str,
    script: &'static str,
    list: f64,
    live: f64,
}

/// What one client did in each round.
#[derive(Default)]
struct Runs {
    cpu: Values,
    /// Without the threads that write the index.
    main: Values,
    peak: Values,
}

impl Runs {
    fn add(&mut self, usage: Usage) {
        self.cpu.add(usage.cpu);
        self.main.add(usage.main);
        self.peak.add(mib(usage.peak));
    }
}

/// Results by workload and client, in the order of the tables.
type Results = BTreeMap<(String, &'static str), Runs>;

struct Bench<'a> {
    service: &'a mut Service,
    peers: bool,
    results: Results,
}

/// Runs the rounds and prints the tables.
pub(crate) fn run(options: &Options, service: &mut Service) -> Result<()> {
    let (list, live) = (options.wants("list"), options.wants("live"));
    let mut bench = Bench { service, peers: options.peers, results: Results::new() };
    for round in 1..=options.rounds {
        progress(&format!("round {round} of {}", options.rounds));
        if list {
            bench.list(20, options.rows as u64)?;
        }
        for frame in FRAMES {
            if live {
                bench.live(50, options.live_rows, frame)?;
            }
        }
    }
    if list {
        bench.report_list(20 * options.rows);
    }
    if live {
        bench.report_live(options.live_rows);
    }
    Ok(())
}

/// The heads of a set's Bots once everything is in: the highest number of a message.
pub(crate) fn heads<R: Iterator<Item = rows::Row>>(bots: usize, rows: impl Fn(usize) -> R) -> HashMap<String, u64> {
    let head = |bot| rows(bot).filter(|row| row.message).map(|row| row.number).max().unwrap_or(0);
    (0..bots).map(|bot| (data::agent(bot), head(bot))).collect()
}

impl Bench<'_> {
    fn add(&mut self, workload: &str, client: &'static str, usage: Usage) {
        progress(&format!("  {workload}: {client}: {:.0} ms, {:.0} MiB", usage.cpu, mib(usage.peak)));
        self.results.entry((workload.to_owned(), client)).or_default().add(usage);
    }

    /// A client that says when it has everything and waits for the end of its stdin.
    fn client(&mut self, workload: &str, client: &'static str, command: &mut Command, rows: usize) -> Result<()> {
        let mut process = Process::start(command)?;
        let (_, line) = process.line()?;
        if line != format!("ready {rows}") {
            return Err(format!("{client} hasn't read {rows} rows: {line}").into());
        }
        let usage = process.usage()?;
        if !process.finish()? {
            return Err(format!("{client} ended badly").into());
        }
        self.add(workload, client, usage);
        Ok(())
    }

    fn floor(&mut self, workload: &str, set: &str, live: bool, rows: usize) -> Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("floor").arg(self.service.base(set));
        if live {
            command.arg(rows.to_string());
        }
        self.client(workload, "floor", &mut command, rows)
    }

    fn peers(&mut self, workload: &str, set: &str, live: bool, rows: usize) -> Result<()> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers");
        let wanted = if self.peers { PEERS } else { &[] };
        for peer in wanted {
            let program = if peer.program.contains('/') { folder.join(peer.program) } else { peer.program.into() };
            let mut command = Command::new(program);
            command.arg(folder.join(peer.script)).arg(self.service.base(set));
            if live {
                command.arg(rows.to_string());
            }
            self.client(workload, peer.name, &mut command, rows)?;
        }
        Ok(())
    }

    /// The first full sync, the same with its index there, and a broken stream.
    fn list(&mut self, bots: usize, rows: u64) -> Result<()> {
        let set = format!("list-{bots}-{rows}-{TEXT}");
        self.service.warm(&set)?;
        let count = bots * usize::try_from(rows)?;
        let expected = heads(bots, |bot| server::transcript(bot, rows, TEXT));
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data");
        provider::sign_in(&data)?;

        self.floor("first", &set, false, count)?;
        let mut provider = Provider::start(&data, &self.service.base(&set))?;
        provider.until(&expected)?;
        self.add("first", "provider", provider.process.usage()?);
        check(&mut provider, bots, rows)?;
        provider.quit()?;
        self.peers("first", &set, false, count)?;

        self.floor("again", &set, false, count)?;
        let mut provider = Provider::start(&data, &self.service.base(&set))?;
        provider.until(&expected)?;
        self.add("again", "provider", provider.process.usage()?);
        check(&mut provider, bots, rows)?;

        self.floor("reconnect", &set, false, count)?;
        self.reconnect(&set, provider, &expected)
    }

    /// Breaks the stream and waits until everything was read anew: a row that comes down the next stream is shown only once it was.
    fn reconnect(&mut self, set: &str, mut provider: Provider, expected: &HashMap<String, u64>) -> Result<()> {
        let (pages, opened) =
            (self.service.count(&format!("pages {set}"))?, self.service.count(&format!("opened {set}"))?);
        let before = provider.process.usage()?;
        self.service.command(&format!("break {set}"))?;
        // Every Bot is read to its end again.
        let whole = pages_of(set)? * expected.len();
        while self.service.count(&format!("opened {set}"))? == opened
            || self.service.count(&format!("pages {set}"))? < pages + whole
        {
            std::thread::sleep(Duration::from_millis(20));
        }
        let number = expected.values().max().copied().unwrap_or(0) + 10;
        self.service.command(&format!("push {set} {number}"))?;
        provider.until(&expected.keys().map(|agent| (agent.clone(), number)).collect())?;
        let after = provider.process.usage()?;
        let usage = Usage { cpu: after.cpu - before.cpu, main: after.main - before.main, ..after };
        self.add("reconnect", "provider", usage);
        Ok(provider.quit()?)
    }

    fn live(&mut self, bots: usize, rows: usize, frame: usize) -> Result<()> {
        let (set, workload) = (format!("live-{bots}-{rows}-{TEXT}-{frame}"), format!("live {frame}"));
        self.service.warm(&set)?;
        let each = (rows / bots) as u64;
        let expected = heads(bots, |bot| (0..each).map(move |n| server::live_row(bot, n, TEXT)));
        let folder = tempfile::tempdir()?;
        let data = folder.path().join("data");
        provider::sign_in(&data)?;
        self.floor(&workload, &set, true, rows)?;
        let mut provider = Provider::start(&data, &self.service.base(&set))?;
        provider.until(&expected)?;
        self.add(&workload, "provider", provider.process.usage()?);
        let last = server::live_row(0, each - 1, TEXT).text;
        if provider.newest(&data::agent(0), 1)? != [last] {
            return Err("the newest message isn't what the service sent".into());
        }
        provider.quit()?;
        self.peers(&workload, &set, true, rows)
    }

    /// Prints a table of one workload's clients, each against the floor; `commits` says that those of the index stand apart.
    fn table(&self, workload: &str, heading: &str, rows: usize, most: f64, commits: bool) {
        let Some(floor) = self.results.get(&(workload.to_owned(), "floor")) else { return };
        let Some(own) = self.results.get(&(workload.to_owned(), "provider")) else { return };
        let thousands = float(rows as u64) / 1000.0;
        let cost = |runs: &Values| Values(runs.0.iter().map(|cpu| cpu / thousands).collect());
        let mut table =
            Table::new(&["client", "CPU, ms per 1,000 rows", "CPU over the floor's", "peak, MiB", "must reach", ""]);
        let dash = "–".to_owned();
        table.row(&[
            "floor".to_owned(),
            cost(&floor.cpu).to_string(),
            "1".to_owned(),
            dash.clone(),
            dash.clone(),
            String::new(),
        ]);
        let measured = if commits { &own.main } else { &own.cpu };
        let ratio = measured.over(&floor.cpu);
        let name = if commits { "provider, index commits apart" } else { "provider" };
        let must = format!("≤ {most} × floor");
        table.row(&[
            name.to_owned(),
            cost(measured).to_string(),
            ratio.to_string(),
            format!("{:.0}", own.peak),
            must,
            verdict(ratio.median(), most).to_owned(),
        ]);
        if commits {
            let (cost, ratio) = (cost(&own.cpu).to_string(), own.cpu.over(&floor.cpu).to_string());
            table.row(&["provider, all of it".to_owned(), cost, ratio, dash.clone(), dash.clone(), String::new()]);
        }
        for peer in PEERS {
            let Some(runs) = self.results.get(&(workload.to_owned(), peer.name)) else { continue };
            let least = if commits { peer.live } else { peer.list };
            let (times, memory) = (runs.cpu.over(&own.cpu), own.peak.over(&runs.peak));
            table.row(&[
                peer.name.to_owned(),
                cost(&runs.cpu).to_string(),
                runs.cpu.over(&floor.cpu).to_string(),
                format!("{:.0}", runs.peak),
                format!("≥ {least} × provider's CPU: {times}; provider's peak ≤ 0.6 ×: {memory}"),
                format!("{}; {}", verdict(-times.median(), -least), verdict(memory.median(), 0.6)),
            ]);
        }
        table.print(heading);
    }

    fn report_list(&self, rows: usize) {
        self.table("first", &format!("First full sync: {rows} rows of 20 Bots, index written"), rows, 1.5, false);
        self.table("again", "The same with the index already there: restart", rows, 1.0, false);
        self.table(
            "reconnect",
            "The same with the index already there: the stream breaks, everything is read anew",
            rows,
            1.0,
            false,
        );
    }

    fn report_live(&self, rows: usize) {
        for frame in FRAMES {
            let heading = format!("Live rows: {rows} over 50 Bots, in frames of {frame}, exposed");
            self.table(&format!("live {frame}"), &heading, rows, 1.2, true);
        }
        say(
            "\nIndex commits run on a thread of their own; what stands apart is the CPU of every thread but the first.",
        );
    }
}

/// Pages that one Bot of a `list` set has: full ones and the short one at the end.
fn pages_of(set: &str) -> Result<usize> {
    let rows: usize = set.split('-').nth(2).ok_or("no list")?.parse()?;
    Ok(rows / 500 + 1)
}

/// The newest messages of a Bot are those of the service, in the order of their numbers.
fn check(provider: &mut Provider, bots: usize, rows: u64) -> Result<()> {
    let bot = bots - 1;
    let mut messages: Vec<rows::Row> = server::transcript(bot, rows, TEXT).filter(|row| row.message).collect();
    messages.sort_by_key(|row| row.number);
    let expected: Vec<String> = messages.split_off(messages.len() - 50).into_iter().map(|row| row.text).collect();
    if provider.newest(&data::agent(bot), 50)? == expected {
        Ok(())
    } else {
        Err("the newest messages aren't what the service holds".into())
    }
}
