//! The network between the provider and the service: answers take their time, rows of a page lie in any order, and a stream is bytes that come in
//! pieces, late, twice, swapped, or stop at any byte. The bytes go through the real framing of `connect`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use oauth2::AccessToken;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use super::history::History;
use crate::connect::frame::{Decoder, Envelopes, envelope};
use crate::model::{AgentId, RowBody};
use crate::upstream::{
    Call, Delivery, Error, ErrorKind, Frame, Frames, Me, Next, Page, PageRequest, Roster, SendRequest, SendStatus,
    Upstream, WatchRequest, WidgetAnswer, WidgetRequest,
};
use crate::watch::tests::bed::fault::error;
use crate::watch::tests::bed::service::Service;

/// How bad it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Weather {
    /// Longest time of an answer on its way, and of a piece of a stream, in ms.
    pub(super) latency: u64,
    /// Per cent of calls that take up to 8 s.
    pub(super) late: u8,
    /// Per cent of `rows` frames that come twice, and of pages that hold a row twice.
    pub(super) twice: u8,
    /// Per cent of `rows` frames that come behind the next one, and of pages whose rows lie anyhow.
    pub(super) swap: u8,
    /// Per cent of streams that break by themselves at some byte.
    pub(super) cut: u8,
}

/// The service through the network.
pub(super) struct Net {
    service: Arc<Service>,
    sky: Arc<Sky>,
}

struct Sky {
    state: Mutex<State>,
    changed: Notify,
    history: History,
}

struct State {
    rng: Rng,
    weather: Weather,
    /// How often the streams were cut.
    cuts: u64,
    stalled: Option<Instant>,
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Net")
    }
}

impl Sky {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    fn chance(&mut self, per_cent: u8) -> bool {
        self.rng.u8(0..100) < per_cent
    }

    fn latency(&mut self) -> Duration {
        let longest = if self.weather.late > 0 && self.rng.u8(0..100) < self.weather.late { 8_000 } else { 0 };
        let longest = self.weather.latency.max(longest);
        Duration::from_millis(self.rng.u64(0..=longest))
    }
}

impl Net {
    pub(super) fn new(service: Arc<Service>, rng: Rng, weather: Weather, history: History) -> Arc<Self> {
        let state = State { rng, weather, cuts: 0, stalled: None };
        let sky = Sky { state: Mutex::new(state), changed: Notify::new(), history };
        Arc::new(Self { service, sky: Arc::new(sky) })
    }

    pub(super) fn weather(&self, weather: Weather) {
        let mut state = self.sky.lock();
        state.weather = weather;
        state.stalled = None;
        drop(state);
        self.sky.changed.notify_waiters();
    }

    /// The open stream breaks a few bytes from now.
    pub(super) fn cut(&self) {
        self.sky.lock().cuts += 1;
        self.sky.changed.notify_waiters();
    }

    /// Nothing comes through for a while.
    pub(super) fn stall(&self, time: Duration) {
        self.sky.lock().stalled = Some(Instant::now() + time);
        self.sky.changed.notify_waiters();
    }

    /// There and back, each with its time.
    fn far<T: Send + 'static>(&self, call: Call<T>) -> Call<T> {
        let (there, back) = {
            let mut state = self.sky.lock();
            (state.latency(), state.latency())
        };
        Box::pin(async move {
            sleep(there).await;
            let answer = call.await;
            sleep(back).await;
            answer
        })
    }
}

impl Upstream for Net {
    fn me(&self, token: AccessToken) -> Call<Me> {
        self.far(self.service.me(token))
    }

    fn agents(&self, token: AccessToken) -> Call<Roster> {
        self.far(self.service.agents(token))
    }

    fn entries(&self, token: AccessToken, request: PageRequest) -> Call<Page> {
        let sky = Arc::clone(&self.sky);
        let call = self.far(self.service.entries(token, request));
        Box::pin(async move {
            let mut page = call.await?;
            let mut state = sky.lock();
            let (twice, swap) = (state.weather.twice, state.weather.swap);
            if !page.rows.is_empty() && state.chance(twice) {
                let again = page.rows[state.rng.usize(..page.rows.len())].clone();
                page.rows.push(again);
            }
            if state.chance(swap) {
                state.rng.shuffle(&mut page.rows);
            }
            Ok(page)
        })
    }

    fn watch(&self, token: AccessToken, request: WatchRequest) -> Call<Box<dyn Frames>> {
        let sky = Arc::clone(&self.sky);
        let call = self.far(self.service.watch(token, request));
        Box::pin(async move {
            let inner = call.await?;
            Ok(Box::new(Line::new(inner, sky)) as Box<dyn Frames>)
        })
    }

    fn blob(&self, token: AccessToken, hash: Arc<str>, kind: Arc<str>) -> Call<Option<RowBody>> {
        self.far(self.service.blob(token, hash, kind))
    }

    fn send(&self, token: AccessToken, request: SendRequest) -> Call<Delivery> {
        self.far(self.service.send(token, request))
    }

    fn send_status(&self, token: AccessToken, agent_id: AgentId, message_id: String) -> Call<SendStatus> {
        self.far(self.service.send_status(token, agent_id, message_id))
    }

    fn respond_widget(&self, token: AccessToken, request: WidgetRequest) -> Call<WidgetAnswer> {
        self.far(self.service.respond_widget(token, request))
    }
}

/// One stream as bytes.
struct Line {
    inner: Box<dyn Frames>,
    sky: Arc<Sky>,
    /// What the payloads stand for.
    frames: Vec<Frame>,
    bytes: VecDeque<(Instant, Vec<u8>)>,
    decoder: Decoder,
    /// A frame that the next one overtakes.
    held: Option<(Instant, Frame)>,
    /// Frames that come again.
    again: VecDeque<(Instant, Frame)>,
    /// How many bytes still come before it breaks.
    left: Option<usize>,
    cuts: u64,
    /// The service has ended it.
    closed: bool,
    broken: Option<Error>,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

impl Line {
    fn new(inner: Box<dyn Frames>, sky: Arc<Sky>) -> Self {
        let mut state = sky.lock();
        let cut = state.weather.cut;
        let left = state.chance(cut).then(|| state.rng.usize(..1_500));
        let cuts = state.cuts;
        drop(state);
        Self {
            inner,
            sky,
            frames: Vec::new(),
            bytes: VecDeque::new(),
            decoder: Decoder::default(),
            held: None,
            again: VecDeque::new(),
            left,
            cuts,
            closed: false,
            broken: None,
        }
    }

    /// The service sent a frame.
    fn sent(&mut self, frame: Frame) {
        let mut state = self.sky.lock();
        let (twice, swap) = (state.weather.twice, state.weather.swap);
        if matches!(frame, Frame::Rows { .. }) {
            if state.chance(twice) {
                let at = Instant::now() + Duration::from_millis(state.rng.u64(0..6_000));
                self.again.push_back((at, frame.clone()));
            }
            if self.held.is_none() && state.chance(swap) {
                let until = Instant::now() + Duration::from_millis(state.rng.u64(1..2_500));
                self.held = Some((until, frame));
                return;
            }
            drop(state);
            self.put(frame);
            self.release();
        } else {
            drop(state);
            self.release();
            self.put(frame);
        }
    }

    fn release(&mut self) {
        if let Some((_, frame)) = self.held.take() {
            self.put(frame);
        }
    }

    fn put(&mut self, frame: Frame) {
        let mut payload = self.frames.len().to_be_bytes().to_vec();
        self.frames.push(frame);
        payload.resize(payload.len() + self.sky.lock().rng.usize(..40), b' ');
        self.write(envelope(&payload));
    }

    /// In pieces, each in its time.
    fn write(&mut self, mut bytes: Vec<u8>) {
        let mut state = self.sky.lock();
        let mut at = self.bytes.back().map_or_else(Instant::now, |(at, _)| (*at).max(Instant::now()));
        while !bytes.is_empty() {
            let rest =
                bytes.split_off(if state.rng.u8(0..3) == 0 { state.rng.usize(1..=bytes.len()) } else { bytes.len() });
            let latency = state.weather.latency / 4;
            at += Duration::from_millis(state.rng.u64(0..=latency));
            self.bytes.push_back((at, bytes));
            bytes = rest;
        }
    }

    /// The next piece has come.
    fn arrived(&mut self) {
        let Some((_, mut bytes)) = self.bytes.pop_front() else { return };
        if let Some(left) = &mut self.left {
            bytes.truncate(*left);
            *left -= bytes.len();
            if *left == 0 {
                self.broken = Some(error(ErrorKind::Broken));
            }
        }
        self.decoder.push(bytes.into());
    }

    async fn next_frames(&mut self) -> Result<Option<Vec<Frame>>, Error> {
        loop {
            let most = self.sky.lock().rng.usize(1..5);
            match self.decoder.take(most) {
                Ok(Some(Envelopes::Messages(payloads))) => {
                    let number = |payload: &[u8]| payload[..8].try_into().map(usize::from_be_bytes).unwrap();
                    return Ok(Some(
                        payloads.into_iter().map(|payload| self.frames[number(payload)].clone()).collect(),
                    ));
                }
                Ok(Some(Envelopes::End(_))) => return Ok(None),
                Ok(None) => {}
                Err(error) => panic!("{error}"),
            }
            if let Some(error) = &self.broken {
                let inside = if self.decoder.is_cut() { "inside" } else { "between" };
                self.sky.history.note(format_args!("net: the stream breaks {inside} frames"));
                return Err(error.clone());
            }
            let changed = self.sky.changed.notified();
            let stalled = {
                let mut state = self.sky.lock();
                if state.cuts != self.cuts {
                    self.cuts = state.cuts;
                    self.left = Some(state.rng.usize(..60));
                    if self.bytes.is_empty() {
                        self.broken = Some(error(ErrorKind::Broken));
                        continue;
                    }
                }
                state.stalled
            };
            let far = Instant::now() + Duration::from_hours(24);
            let piece = self.bytes.front().map(|(at, _)| stalled.map_or(*at, |until| until.max(*at)));
            let held = self.held.as_ref().map(|(at, _)| *at);
            let again = self.again.front().map(|(at, _)| *at);
            tokio::select! {
                biased;
                () = sleep_until(piece.unwrap_or(far)), if piece.is_some() => self.arrived(),
                frame = self.inner.next(), if !self.closed => match frame {
                    Ok(Some(frames)) => frames.into_iter().for_each(|frame| self.sent(frame)),
                    Ok(None) => {
                        self.closed = true;
                        self.release();
                        self.again.clear();
                        let mut end = envelope(b"{}");
                        end[0] = 0x02;
                        self.write(end);
                    }
                    // What is still on its way is lost.
                    Err(error) => self.broken = Some(error),
                },
                () = sleep_until(held.unwrap_or(far)), if held.is_some() => self.release(),
                () = sleep_until(again.unwrap_or(far)), if again.is_some() => {
                    if let Some((_, frame)) = self.again.pop_front() {
                        self.put(frame);
                    }
                }
                () = changed => {}
            }
        }
    }
}

impl Frames for Line {
    /// Cancel-safe: whatever has come stays in the line.
    fn next(&mut self) -> Next<'_> {
        Box::pin(self.next_frames())
    }
}
