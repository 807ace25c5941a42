//! A provider under load, or in bad weather: what is sent to it, what its host must find, and what may not grow.

#[path = "../../support/data.rs"]
mod data;
mod host;
#[path = "../../support/http.rs"]
mod http;
mod provider;
#[path = "../../support/row.rs"]
mod row;
mod service;
#[path = "../../support/sign_in.rs"]
mod sign_in;
mod weather;
mod world;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use data::Rng;
use host::{Deaf, Host};
use provider::{Provider, Size};
use service::Service;
use world::World;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Rows are brought in steps of this.
const STEP: Duration = Duration::from_millis(10);
/// How long a history may take to be what the service says, once the weather is good: longer than the longest pause between two tries.
const CONVERGE: Duration = Duration::from_mins(3);
/// How long what has nothing to do may live on.
const REST: Duration = Duration::from_secs(30);
/// Resident memory that a message may cost beyond its text: its id of 36 bytes, and about 100 more.
const MESSAGE: u64 = 136;

/// What is done, and what must come of it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The program.
    pub(crate) binary: PathBuf,
    pub(crate) bots: usize,
    /// Changes a second over all Bots.
    pub(crate) rate: u64,
    pub(crate) time: Duration,
    /// A third of the changes are edits, and some deletes; else all are new rows.
    pub(crate) edits: bool,
    /// The least and the most time between two flaps of the network.
    pub(crate) weather: Option<(Duration, Duration)>,
    /// Rows of the first Bot before it begins; the others have one.
    pub(crate) long: usize,
    /// After how long the host stops reading, for how long, and how many pages it asks for meanwhile.
    pub(crate) deaf: Option<(Duration, Duration, usize)>,
    /// How long is waited before the first look and before the last one.
    pub(crate) settle: Duration,
    /// The most that may lie between a message's quiet second and the moment at which the host reads its head, for 99 of 100 and for all.
    pub(crate) late: (Duration, Duration),
    /// Resident memory beyond what the messages need.
    pub(crate) spare: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Changes sent.
    pub(crate) sent: u64,
    /// Messages that the host found in the end, and bytes of their texts.
    pub(crate) messages: u64,
    pub(crate) text: u64,
    /// Head notices.
    pub(crate) told: u64,
    /// Messages whose delay was measured; milliseconds beyond the quiet second: of the middle one, of 99 in 100, of all.
    pub(crate) timed: usize,
    pub(crate) late: [f64; 3],
    /// How long the host didn't read, and how long it took to catch up with the answers and the heads.
    pub(crate) deaf: Option<(Duration, Duration)>,
    /// The longest that a row waited to be taken off the service's hands while the host didn't read.
    pub(crate) lag: Duration,
    /// What happened to the network, and how often.
    pub(crate) weather: Vec<(&'static str, usize)>,
    /// Streams opened and pages served meanwhile.
    pub(crate) streams: u64,
    pub(crate) pages: u64,
    /// From the end of the bad weather to the moment at which everything was there.
    pub(crate) converged: Duration,
    /// At the start, the largest while it ran, when everything was there, and after the last wait.
    pub(crate) sizes: [Size; 4],
    /// Resident when the host stopped reading, and the most until it had caught up.
    pub(crate) deaf_sizes: [u64; 2],
    /// What is wrong.
    pub(crate) faults: Vec<String>,
}

/// Does it. `tell` hears what is going on.
pub(crate) fn run(plan: &Plan, tell: &mut dyn FnMut(&str)) -> Result<Figures> {
    let service = Arc::new(Service::start(plan.bots, plan.long)?);
    let folder = tempfile::tempdir()?;
    let provider = Provider::start(&plan.binary, &folder.path().join("data"), &service.base())?;
    let mut host = Host::new(provider, &service);
    let name = json!({"name": "load", "version": "5.7.0"});
    host.call("initialize", &json!({"protocolVersion": "5.7.0", "host": name}))?;
    host.until("the first heads and the stream", |host| host.has_heads() && service.counts().0 > 0)?;
    // A busy machine may still read what the stream came too early for.
    let mut before = (0, 0);
    while before != service.counts() {
        before = service.counts();
        host.listen(plan.settle)?;
    }
    let mut figures = Figures::default();
    figures.sizes[0] = host.size()?;

    let rows = {
        let (service, plan) = (Arc::clone(&service), plan.clone());
        thread::spawn(move || bring(&service, &plan))
    };
    let weather = plan.weather.map(|spacing| {
        let (service, time) = (Arc::clone(&service), plan.time);
        thread::spawn(move || weather::run(&service, spacing, time))
    });
    let begun = Instant::now();
    let (mut minute, mut heard) = (0, 0);
    while !rows.is_finished() || weather.as_ref().is_some_and(|weather| !weather.is_finished()) {
        host.step()?;
        if let Some((after, time, reads)) = plan.deaf {
            deafen(&mut host, &mut figures, &service, begun, (after, time, reads))?;
        }
        if begun.elapsed().as_secs() / 60 > minute {
            minute += 1;
            let size = host.size()?;
            let [p50, p99, most] = quantiles(&host.delays[heard..]);
            heard = host.delays.len();
            tell(&format!(
                "{minute} min: {} MiB, {} threads, {} files; late {p50:.0}, {p99:.0}, {most:.0} ms",
                size.resident >> 20,
                size.threads,
                size.files
            ));
        }
    }
    figures.sent = rows.join().map_err(|_| "the sender panicked")?;
    if let Some(weather) = weather {
        figures.weather = weather.join().map_err(|_| "the weather panicked")?;
    }
    converge(&mut host, &mut figures, plan)?;
    figures.sizes[2] = host.size()?;
    host.listen(plan.settle)?;
    figures.sizes[3] = rested(&mut host, figures.sizes[0])?;

    figures.told = host.told;
    let counts = service.counts();
    (figures.streams, figures.pages) = (counts.0 - before.0, counts.1 - before.1);
    figures.sizes[1] = Size { peak: figures.sizes[3].peak, ..host.largest };
    figures.timed = host.delays.len();
    figures.late = quantiles(&host.delays);
    figures.deaf = host.deaf.and_then(|Deaf { from, to, over }| Some((to? - from, over? - to?)));
    figures.faults = host.quit()?;
    judge(&mut figures, plan);
    Ok(figures)
}

/// The middle one, that of 99 in 100, and the largest.
fn quantiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    [50, 99, 100].map(|part| sorted.get(last * part / 100).copied().unwrap_or(0.0))
}

/// Sends the rows: how many changes there were.
fn bring(service: &Service, plan: &Plan) -> u64 {
    let (begun, mut rng, mut done) = (Instant::now(), Rng(4711), 0);
    while begun.elapsed() < plan.time {
        let due = u64::try_from(begun.elapsed().as_millis()).unwrap_or(0) * plan.rate / 1000;
        // A host reads all of them at the end, whoever is slow: what is late is sent late.
        let timed = !plan.edits && plan.weather.is_none();
        service.bring(timed, |world| (done..due).filter_map(|n| change(world, &mut rng, n, plan)).collect());
        if due > done {
            service.busy(rng.below(plan.bots), &format!("step {done}"));
        }
        done = done.max(due);
        thread::sleep(STEP);
    }
    done
}

/// One change: a new row, or, if there are edits, one in three times an edit and one in twelve times a delete; mostly of what is new.
fn change(world: &mut World, rng: &mut Rng, n: u64, plan: &Plan) -> Option<(usize, u64)> {
    let bot = usize::try_from(n).unwrap_or(0) % plan.bots;
    let kind = if plan.edits { rng.below(12) } else { 11 };
    let number = match kind {
        0..3 => world.change(bot, rng, 5, false),
        3 => world.change(bot, rng, usize::MAX, false),
        4 => world.change(bot, rng, 50, true),
        _ => Some(world.add(bot)),
    };
    number.map(|number| (bot, number))
}

/// Lets the host stop reading, and read again, when it is time.
fn deafen(
    host: &mut Host<'_>,
    figures: &mut Figures,
    service: &Service,
    begun: Instant,
    (after, time, reads): (Duration, Duration, usize),
) -> Result<()> {
    match host.deaf {
        None if begun.elapsed() >= after => {
            service.lag();
            figures.deaf_sizes = [host.size()?.resident, 0];
            host.stop_reading(reads);
        }
        Some(Deaf { from, to: None, .. }) if from.elapsed() >= time => {
            figures.lag = service.lag();
            figures.deaf_sizes[1] = host.size()?.resident;
            host.read_on();
        }
        _ => {}
    }
    Ok(())
}

/// Waits until everything that was sent is there, once.
fn converge(host: &mut Host<'_>, figures: &mut Figures, plan: &Plan) -> Result<()> {
    let begun = Instant::now();
    let plain = !plan.edits;
    loop {
        host.until("the last heads", |host| {
            host.has_heads() && host.has_read() && host.deaf.is_none_or(|deaf| deaf.over.is_some())
        })?;
        match host.check(plain) {
            Ok((messages, text)) => {
                (figures.messages, figures.text, figures.converged) = (messages, text, begun.elapsed());
                return Ok(());
            }
            Err(error) if begun.elapsed() > CONVERGE => return Err(error),
            // A delete that was missed is found by the next full read, and a change has its quiet second before it.
            Err(_) => host.listen(Duration::from_secs(1))?,
        }
    }
}

/// What the system says once threads and connections that have nothing to do have ended; they take some seconds.
fn rested(host: &mut Host<'_>, start: Size) -> Result<Size> {
    let begun = Instant::now();
    loop {
        let size = host.size()?;
        if (size.threads <= start.threads && size.files <= start.files) || begun.elapsed() > REST {
            return Ok(size);
        }
        host.listen(Duration::from_millis(200))?;
    }
}

fn judge(figures: &mut Figures, plan: &Plan) {
    let mut faults = std::mem::take(&mut figures.faults);
    let mut must = |good: bool, what: String| {
        if !good {
            faults.push(what);
        }
    };
    let [start, largest, end, after] = figures.sizes;
    let [_, p99, most] = figures.late;
    must(p99 <= plan.late.0.as_secs_f64() * 1000.0, format!("one message in a hundred came {p99:.0} ms late"));
    must(most <= plan.late.1.as_secs_f64() * 1000.0, format!("a message came {most:.0} ms late"));
    if let Some((_, time, _)) = plan.deaf {
        must(figures.deaf.is_some(), "the host never caught up".to_owned());
        must(figures.lag < time / 2, format!("a row waited {:?} while the host didn't read", figures.lag));
    }
    let needed = start.resident + figures.text + MESSAGE * figures.messages;
    must(
        largest.resident <= needed + plan.spare,
        format!("{} bytes resident, where {needed} and {} are enough", largest.resident, plan.spare),
    );
    // What is freed goes back to the system at times; a page or two may come.
    must(
        after.resident <= end.resident + (2 << 20),
        format!("{} bytes after {} at the end", after.resident, end.resident),
    );
    let threads = start.threads.max(largest.threads);
    must(threads < 64, format!("{threads} threads: one a Bot, or one for whatever waits"));
    must(after.threads <= start.threads, format!("{} threads, {} at the start", after.threads, start.threads));
    must(after.files <= start.files, format!("{} open files, {} at the start", after.files, start.files));
    figures.faults = faults;
}
