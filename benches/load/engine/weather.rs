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
    let more = usize::try_from(spacing.1.saturating_sub(spacing.0).as_millis()).unwrap_or(0);
    loop {
        sleep(spacing.0 + upto(&mut rng, more));
        if begun.elapsed() >= time {
            return counts.to_vec();
        }
        let kind = rng.below(counts.len());
        counts[kind].1 += 1;
        match kind {
            0 => service.cut(),
            1 => {
                service.shut(true);
                service.cut();
                sleep(upto(&mut rng, AWAY));
                service.shut(false);
            }
            2 => service.stall(upto(&mut rng, AWAY)),
            3 => service.reset(),
            _ => {
                // Again and again, as what it lost is being read.
                for _ in 0..5 {
                    service.cut();
                    sleep(upto(&mut rng, 300));
                }
            }
        }
    }
}

fn upto(rng: &mut Rng, millis: usize) -> Duration {
    Duration::from_millis(rng.below(millis + 1) as u64)
}
