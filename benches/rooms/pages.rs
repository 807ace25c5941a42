//! How long a page of 50 takes in a long record and in a short one: found in process, and as a host's JSON.

use coda_grok_bot::host::{self, Config, Incoming, Role};
use coda_grok_bot::records::{Bound, Place};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::data::{GENERATION, Rng};
use crate::stats::{Clock, Table, Values, say, verdict};
use crate::world::World;
use crate::{Figures, Options, Result, figure, run};

/// Pages read in a run.
const PAGES: usize = 20_000;
const LIMIT: usize = 50;
/// The short record that the long one is held against.
const SHORT: &str = "10000";

/// Reads pages at random places.
pub(crate) fn child(messages: &str) -> Result<()> {
    let messages: u64 = messages.parse()?;
    let mut world = World::new(1);
    world.fill(0, messages);
    let record = world.bots[0].info.id.clone();
    let mut rng = Rng(4711);
    let mut found = Values::default();
    for _ in 0..PAGES {
        let number = LIMIT as u64 + 1 + rng.next() % (messages - LIMIT as u64);
        let bound = Bound::Before(Place { generation: u128::from(GENERATION), number: u128::from(number) });
        let start = Clock::now();
        let page = world.handle.read(&record, bound, LIMIT)?;
        found.add((Clock::now().saturating_sub(start)).as_secs_f64() * 1e6);
        if page.messages.len() != LIMIT {
            return Err("a page isn't full".into());
        }
    }
    say(&format!("found-p50 {}", found.quantile(0.5)));
    say(&format!("found-p99 {}", found.quantile(0.99)));

    let (transport, mut far) = host::pair();
    let handle = world.handle.clone();
    let config = Config { role: Role::Guest, ready: async { Ok(handle) }, stop: CancellationToken::new() };
    let client = async {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "5.7.0", "host": {"name": "bench", "version": "1"}}});
        far.incoming.send(Incoming::Text(hello.to_string())).await?;
        let mut json = Values::default();
        for id in 0..PAGES {
            let number = LIMIT as u64 + 1 + rng.next() % (messages - LIMIT as u64);
            let params = json!({"record": record.as_str(), "before": format!("{GENERATION}:{number}"), "limit": LIMIT});
            let request =
                json!({"jsonrpc": "2.0", "id": id + 1, "method": "session/read", "params": params}).to_string();
            let answered = format!("\"id\":{}", id + 1);
            let start = Clock::now();
            far.incoming.send(Incoming::Text(request)).await?;
            let answer = loop {
                let text = far.outgoing.recv().await.ok_or("the session ended")?;
                // Its place in the text is the answer's head or its end; a page is long.
                let (head, tail) = (text.as_bytes().iter().take(64), text.as_bytes().iter().rev().take(64).rev());
                let ends: Vec<u8> = head.chain(tail).copied().collect();
                if String::from_utf8_lossy(&ends).contains(&answered) {
                    break text;
                }
            };
            json.add((Clock::now().saturating_sub(start)).as_secs_f64() * 1e6);
            if answer.matches("\"cursor\":").count() != LIMIT {
                return Err("a page isn't full".into());
            }
        }
        Ok::<_, Box<dyn std::error::Error>>(json)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let json = runtime.block_on(async {
        tokio::select! {
            _ = host::run(transport, config) => Err("the session ended".into()),
            json = client => json,
        }
    })?;
    say(&format!("json-p50 {}", json.quantile(0.5)));
    say(&format!("json-p99 {}", json.quantile(0.99)));
    Ok(())
}

pub(crate) fn bench(options: &Options) -> Result<()> {
    let mut figures = Figures::new();
    let messages = options.messages.to_string();
    for _ in 0..options.rounds {
        run(&mut figures, "long ", &["pages", &messages])?;
        run(&mut figures, "short ", &["pages", SHORT])?;
    }
    let long = format!("record of {messages}");
    let mut table =
        Table::new(&["a page of 50, µs", "must be", &long, "record of 10,000", "the first over the second", ""]);
    for (what, name, most) in [
        ("found in process, p50", "found-p50", f64::NAN),
        ("found in process, p99", "found-p99", 20.0),
        ("as JSON, request to answer in process, p50", "json-p50", f64::NAN),
        ("as JSON, request to answer in process, p99", "json-p99", 120.0),
    ] {
        let (long, short) = (figure(&figures, &format!("long {name}"))?, figure(&figures, &format!("short {name}"))?);
        let ratio = long.over(short);
        let (must, verdict) = if most.is_nan() {
            ("–".to_owned(), String::new())
        } else {
            let judged = format!("{}; {}", verdict(long.median(), most), verdict(ratio.median(), 2.0));
            (format!("≤ {most}; ≤ 2 × the short one"), judged)
        };
        table.row(&[what.to_owned(), must, format!("{long:.1}"), format!("{short:.1}"), ratio.to_string(), verdict]);
    }
    table.print("Pages");
    Ok(())
}
