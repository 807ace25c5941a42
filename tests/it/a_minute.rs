//! What takes up to a minute of real time, side by side in one test.

use std::time::Duration;

use coda_grok_bot::simulate::{Echo, Options};

use crate::support::Bench;

#[tokio::test]
async fn h9_a13_post3_what_takes_its_time() {
    tokio::join!(a13_post3_no_total_timeout_and_no_endless_wait(), h9_another_process_signs_in_and_out());
}

/// A stream that only beats lives on; a post without an echo is unknown after a minute.
async fn a13_post3_no_total_timeout_and_no_endless_wait() {
    let bench = Bench::new(Options { heartbeat: Duration::from_secs(2), ..Options::default() }).await;
    bench.bot("a");
    bench.sign_in();
    let record = bench.record("a");
    bench.control.quirks(|quirks| quirks.echo = Echo::Never);
    let mut host = bench.serve_ready().await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    let begun = tokio::time::Instant::now();
    let settled = host.post(&record, "r1", "没有回音").await;
    assert_eq!(settled["reason"], "unknown");
    assert!(begun.elapsed() >= Duration::from_secs(59), "{:?}", begun.elapsed());
    assert_eq!(bench.control.count("SendGrokBotUserMessage"), 1);
    assert_eq!((bench.control.opened_streams(), bench.control.open_streams()), (1, 1), "one stream all the time");
    host.quit().await;
}

/// The sign-in file changed by another process is picked up within 30 s, both ways.
async fn h9_another_process_signs_in_and_out() {
    let bench = Bench::new(Options { auto_confirm: Some(1), ..Options::default() }).await;
    bench.bot("a");
    let mut host = bench.serve().await;
    host.until("signed out", |host| host.status["state"] == "signedOut").await;
    let begun = tokio::time::Instant::now();
    assert_eq!(bench.run(&["sign-in", "--json"]).await.code, Some(0));
    host.ready(&bench.record("a")).await;
    assert_eq!(bench.run(&["sign-out"]).await.code, Some(0));
    host.until("the withdrawal", |host| host.records.is_empty()).await;
    // Two rounds of 30 s, and room.
    assert!(begun.elapsed() < Duration::from_secs(75), "{:?}", begun.elapsed());
    assert_eq!(host.withdrawn, [(bench.record("a"), "signedOut".to_owned())]);
    host.until("the page says so", |host| host.status["state"] == "signedOut").await;
    host.quit().await;
}
