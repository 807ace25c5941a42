//! An open stream: frames through a channel, heartbeats and a lifetime of its own.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::upstream::{Error, Frame, Frames, Next};

pub(super) type Item = Result<Option<Frame>, Error>;

/// How the next streams behave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Manner {
    /// Connected, the replay, a snapshot, then what happens.
    Normal,
    /// Connected, then a clean end.
    EndsAtOnce,
    /// Connected and one heartbeat, then nothing at all.
    Silent,
    /// The response head, then nothing at all.
    Mute,
    /// As normal, with a clean end after this time.
    Lives(Duration),
    /// As normal, but without replaying anything.
    NoReplay,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) items: mpsc::UnboundedReceiver<Item>,
    pub(super) heartbeat: Option<Instant>,
    pub(super) ends: Option<Instant>,
}

pub(super) const HEARTBEAT: Duration = Duration::from_secs(10);

impl Frames for Stream {
    fn next(&mut self) -> Next<'_> {
        Box::pin(async move {
            let far = Instant::now() + Duration::from_hours(24);
            let (beat, end) = (self.heartbeat.unwrap_or(far), self.ends.unwrap_or(far));
            tokio::select! {
                biased;
                item = self.items.recv() => match item {
                    Some(item) => {
                        if let Some(heartbeat) = &mut self.heartbeat {
                            *heartbeat = Instant::now() + HEARTBEAT;
                        }
                        Ok(item?.map(|frame| vec![frame]))
                    }
                    // The service forgot the stream: its connection stays open without a word.
                    None => std::future::pending().await,
                },
                () = tokio::time::sleep_until(end), if self.ends.is_some() => Ok(None),
                () = tokio::time::sleep_until(beat), if self.heartbeat.is_some() => {
                    self.heartbeat = Some(Instant::now() + HEARTBEAT);
                    Ok(Some(vec![Frame::Heartbeat]))
                }
            }
        })
    }
}
