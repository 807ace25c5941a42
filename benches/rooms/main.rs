//! The rooms in process: what a mirrored message costs in memory, how long an update and a page take, what the index costs.
//!
//! `cargo bench --bench rooms -- [--rounds N] [--messages N] [SECTION…]`. Sections: `memory`, `update`, `pages`, `index`; all of them without a name.
//! Each figure comes from a child process of its own, so that nothing of one is left in the memory of the next.

#[path = "../support/data.rs"]
mod data;
mod index;
mod memory;
mod pages;
#[path = "../support/stats.rs"]
mod stats;
mod update;
mod world;

use std::collections::HashMap;
use std::error::Error;
use std::process::{Command, ExitCode};

use stats::{Values, progress, say};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What the command line says.
#[derive(Debug)]
struct Options {
    rounds: usize,
    messages: u64,
    sections: Vec<String>,
}

const SECTIONS: &[&str] = &["memory", "update", "pages", "index"];

impl Options {
    fn parse(arguments: Vec<String>) -> Result<Self> {
        let mut options = Self { rounds: 3, messages: 1_000_000, sections: Vec::new() };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut number = || -> Result<u64> { Ok(arguments.next().ok_or("a number is missing")?.parse()?) };
            match argument.as_str() {
                "--rounds" => options.rounds = usize::try_from(number()?)?,
                "--messages" => options.messages = number()?,
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

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["child", "memory", bots, messages] => memory::child(bots, messages),
        ["child", "update", messages] => update::child(messages),
        ["child", "pages", messages] => pages::child(messages),
        ["child", "load", folder] => index::child(folder),
        _ => Options::parse(arguments).and_then(|options| bench(&options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            progress(&format!("rooms: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn bench(options: &Options) -> Result<()> {
    if cfg!(debug_assertions) {
        say("**A debug build: it shows that the benchmark runs, and no figure of it means anything.**");
    }
    if options.wants("memory") {
        memory::bench(options)?;
    }
    if options.wants("update") {
        update::bench(options)?;
    }
    if options.wants("pages") {
        pages::bench(options)?;
    }
    if options.wants("index") {
        index::bench(options)?;
    }
    Ok(())
}

/// Figures by name, one value a run.
type Figures = HashMap<String, Values>;

/// Runs a child and takes its figures: lines of a name and numbers.
fn run(figures: &mut Figures, prefix: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(std::env::current_exe()?).arg("child").args(arguments).output()?;
    if !output.status.success() {
        return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    for line in String::from_utf8(output.stdout)?.lines() {
        let (name, value) = line.split_once(' ').ok_or("a line without a value")?;
        progress(&format!("  {prefix}{name}: {value}"));
        figures.entry(format!("{prefix}{name}")).or_default().add(value.parse()?);
    }
    Ok(())
}

/// The values of a figure that was measured.
fn figure<'a>(figures: &'a Figures, name: &str) -> Result<&'a Values> {
    figures.get(name).ok_or_else(|| format!("nothing measured {name}").into())
}
