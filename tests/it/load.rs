//! Short versions of `cargo bench --bench load`, with the same rules: `docs/load.md`.

#[path = "../../benches/load/engine/mod.rs"]
mod engine;

use std::path::PathBuf;
use std::time::Duration;

use engine::{Figures, Plan};

/// 200 Bots, as long as a test may take, and room for a busy machine: what may take how long is measured by the command, not here.
fn plan() -> Plan {
    Plan {
        binary: PathBuf::from(env!("CARGO_BIN_EXE_coda-grok-bot")),
        bots: 200,
        rate: 300,
        time: Duration::from_secs(6),
        edits: false,
        weather: None,
        long: 500,
        deaf: None,
        settle: Duration::from_secs(1),
        late: (Duration::from_secs(10), Duration::from_secs(20)),
        spare: 64 << 20,
    }
}

fn run(plan: &Plan) -> Figures {
    let mut told = Vec::new();
    let figures = engine::run(plan, &mut |line| told.push(line.to_owned())).unwrap();
    assert_eq!(figures.faults, Vec::<String>::new(), "{figures:?}, {told:#?}");
    figures
}

#[test]
fn under_load_every_row_is_there_once_and_a_host_that_doesnt_read_holds_up_nothing() {
    // Past the 16 MiB of answers that wait for a host: it isn't read then.
    let deaf = (Duration::from_secs(2), Duration::from_secs(2), 120);
    let figures = run(&Plan { deaf: Some(deaf), ..plan() });
    assert!(figures.messages > 1500, "{figures:?}");
    // Three hosts' worth of reads never make the service list anything again.
    assert_eq!((figures.streams, figures.pages), (0, 0), "{figures:?}");
}

#[test]
fn when_the_network_flaps_every_row_edit_and_delete_is_there_once() {
    let weather = Some((Duration::from_millis(300), Duration::from_secs(2)));
    let figures = run(&Plan { edits: true, weather, ..plan() });
    assert!(figures.streams > 0 && figures.messages > 1000, "{figures:?}");
}
