//! A network that flaps.

use std::thread::sleep;
use std::time::Duration;

use tokio::time::Instant;

use super::data::Rng;
use super::service::Service;

/// How long nobody can connect, and how long nothing is said, at most.
const AWAY: usize = 3000;

/// Lets it flap for so long: what happened, and how often. At the end the network is good.
pub(crate) fn run(service: &Service, spacing: (Duration, Duration), time: Duration) -> Vec<(&'static str, usize)> {
    let (begun, mut rng) = (Instant::now(), Rng(99));
    let mut counts = [
        ("all connections cut", 0),
        ("nobody can connect", 0),
        ("nothing is said", 0),
        ("a reset in a frame", 0),
        ("cut while it connects", 0),
    ];
    let mut millis = |most: usize| Duration::from_millis(rng.below(most + 1) as u64);
    loop {
        let more = usize::try_from((spacing.1 - spacing.0).as_millis()).unwrap_or(0);
        sleep(spacing.0 + millis(more));
        if begun.elapsed() >= time {
            return counts.to_vec();
        }
        let kind = usize::try_from(millis(counts.len() - 1).as_millis()).unwrap_or(0);
        counts[kind].1 += 1;
        match kind {
            0 => service.cut(),
            1 => {
                service.shut(true);
                service.cut();
                sleep(millis(AWAY));
                service.shut(false);
            }
            2 => service.stall(millis(AWAY)),
            3 => service.reset(),
            _ => {
                // Again and again, as what it lost is being read.
                for _ in 0..5 {
                    service.cut();
                    sleep(millis(300));
                }
            }
        }
    }
}
