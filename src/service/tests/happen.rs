//! What may happen: at the service, on the network, on the disk, with the sign-in, at the hosts.

use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use super::disk::Stick;
use super::model::bot as bot_of;
use super::world::{HERS, HIS, StopBy, World};
use crate::auth::TokenError;
use crate::model::{Harness, RowBody, TurnFailure};
use crate::upstream::{Delivery, Frame, WidgetAnswer};
use crate::watch::tests::bed::fault::{Answer, Fault, Request, any_error};
use crate::watch::tests::bed::frames::Manner;
use crate::watch::tests::bed::{ANN, BEN, rows};

const OPTIONS: [(&str, &str); 2] = [("Yes", "y"), ("No", "n")];

/// Each with how often it happens, beside the others.
const KINDS: &[(&str, u32)] = &[
    ("say", 24),
    ("stream", 8),
    ("edit", 10),
    ("back to before", 4),
    ("delete", 7),
    ("person", 2),
    ("nothing for people", 2),
    ("body elsewhere", 5),
    ("body cut", 3),
    ("question", 5),
    ("answered elsewhere", 4),
    ("answer taken back", 1),
    ("dismissed", 1),
    ("busy", 6),
    ("idle", 5),
    ("turn failed", 1),
    ("clear", 2),
    ("clear silently", 1),
    ("forget changes", 2),
    ("rename", 2),
    ("harness", 1),
    ("bot gone", 1),
    ("bot back", 2),
    ("streams end", 3),
    ("streams break", 2),
    ("cut", 4),
    ("stall", 1),
    ("manner", 2),
    ("slow list", 4),
    ("slow stream", 2),
    ("slow body", 3),
    ("slow send", 4),
    ("slow answer", 2),
    ("slow roster", 2),
    ("slow me", 1),
    ("refused send", 1),
    ("token expires", 2),
    ("no renewal", 1),
    ("renewal", 1),
    ("another account", 1),
    ("same account", 3),
    ("sign-in ends", 1),
    ("disk full", 2),
    ("disk unreadable", 1),
    ("disk mended", 3),
    ("disk stuck", 2),
    ("post", 12),
    ("post again", 2),
    ("reply", 4),
    ("odd post", 2),
    ("answer", 5),
    ("bind", 2),
    ("odd read", 5),
    ("whole read", 4),
    ("list", 1),
    ("host pauses", 2),
    ("host slow", 1),
    ("host vanishes", 1),
    ("host closes", 1),
    ("host comes", 4),
    ("sign out", 1),
    ("sign in", 1),
    ("crash", 2),
    ("stop", 2),
];

/// How often each kind happens in one run: some kinds never, some more than else, so that runs differ in more than their order.
pub(super) fn mix(rng: &mut Rng) -> Vec<u32> {
    let factor = |rng: &mut Rng| [0, 1, 1, 1, 1, 3][rng.usize(..6)];
    KINDS.iter().map(|(_, weight)| weight * factor(rng)).collect()
}

impl World {
    /// One thing happens.
    pub(super) async fn happen(&mut self, mix: &[u32]) {
        self.step += 1;
        let mut place = self.rng.u32(0..mix.iter().sum());
        let kind = KINDS.iter().zip(mix).find(|(_, weight)| {
            let here = place < **weight;
            place = place.saturating_sub(**weight);
            here
        });
        let Some(((kind, _), _)) = kind else { return };
        let bot = [HERS[0], HERS[0], HERS[1], HERS[2], HIS][self.rng.usize(..5)];
        match *kind {
            "crash" => {
                self.crash().await;
                self.pause_of_life().await;
            }
            "stop" => {
                let by = [StopBy::Shutdown, StopBy::Close, StopBy::Signal, StopBy::Abandon][self.rng.usize(..4)];
                self.stop(by).await;
                self.pause_of_life().await;
            }
            "disk stuck" => self.disk_stuck(mix).await,
            kind => {
                self.history.note(format_args!("* {kind} ({bot})"));
                let there = self.at_the_service(kind, bot);
                let there = there || self.wrong_at_the_service(kind, bot) || self.sign_in_and_disk(kind);
                if !there {
                    self.at_a_host(kind);
                }
            }
        }
    }

    /// Between two lives the service goes on.
    async fn pause_of_life(&mut self) {
        for _ in 0..self.rng.usize(0..4) {
            let bot = HERS[self.rng.usize(..3)];
            let kind = ["say", "edit", "delete", "clear", "body elsewhere"][self.rng.usize(..5)];
            self.history.note(format_args!("* {kind} ({bot}) while nobody looks"));
            self.at_the_service(kind, bot);
        }
        let wait = [0, 10, 2_000][self.rng.usize(..3)];
        self.pass(wait).await;
        self.start();
    }

    /// A write takes long; what happens meanwhile happens, and then it goes on, fails, or the process dies.
    async fn disk_stuck(&mut self, mix: &[u32]) {
        let stick = if self.rng.bool() { Stick::Before } else { Stick::After };
        self.disk.stick(Some(stick));
        let disk = self.disk.clone();
        if tokio::time::timeout(Duration::from_secs(3), disk.stuck()).await.is_err() {
            return self.disk.stick(None);
        }
        for _ in 0..self.rng.usize(0..5) {
            let place = self.rng.usize(..KINDS.len());
            let kind = KINDS[place].0;
            if mix[place] == 0 || ["crash", "stop", "disk stuck"].contains(&kind) {
                continue;
            }
            let bot = HERS[self.rng.usize(..3)];
            self.history.note(format_args!("* {kind} ({bot}) while the disk is stuck"));
            let there = self.at_the_service(kind, bot);
            if !(there || self.wrong_at_the_service(kind, bot) || self.sign_in_and_disk(kind)) {
                self.at_a_host(kind);
            }
            let wait = [0, 300, 1_100, 3_000][self.rng.usize(..4)];
            self.pass(wait).await;
        }
        match self.rng.u8(0..4) {
            0 => {
                self.crash().await;
                self.pause_of_life().await;
            }
            1 => {
                self.stop(StopBy::Signal).await;
                self.pause_of_life().await;
            }
            _ => self.disk.stick(None),
        }
    }

    fn text(&self, what: &str) -> String {
        format!("{what} {}", self.step)
    }

    /// A row of a Bot that is still there.
    fn any_row(&mut self, bot: &'static str) -> Option<usize> {
        let count = self.rows.get(bot).map_or(0, Vec::len);
        (count > 0).then(|| self.rng.usize(..count))
    }

    fn append(&mut self, bot: &'static str, text: String, body: RowBody) -> u64 {
        let seq = self.service.append(bot, body);
        self.rows.entry(bot).or_default().push((seq, vec![text]));
        seq
    }

    fn overwrite(&mut self, bot: &'static str, row: usize, text: String) {
        let (seq, texts) = &mut self.rows.get_mut(bot).unwrap()[row];
        self.service.overwrite(bot, *seq, rows::said(&text));
        texts.push(text);
    }

    /// What Bots and people do. Says whether it was of this kind.
    fn at_the_service(&mut self, kind: &str, bot: &'static str) -> bool {
        let row = self.any_row(bot);
        match (kind, row) {
            ("say", _) => {
                let text = self.text("said");
                self.append(bot, text.clone(), rows::said(&text));
            }
            ("stream", _) => {
                // An answer grows under one's eyes; a pause of over a second makes it a message and a revision.
                let text = self.text("grows");
                self.append(bot, text.clone(), rows::said(&text));
                let row = self.rows[bot].len() - 1;
                for part in 0..self.rng.u32(1..5) {
                    self.overwrite(bot, row, format!("{text}{}", " more".repeat(part as usize + 1)));
                }
            }
            ("edit", Some(row)) => {
                let text = self.text("again");
                self.overwrite(bot, row, text);
            }
            ("back to before", Some(row)) => {
                let texts = &self.rows[bot][row].1;
                let text = texts[self.rng.usize(..texts.len())].clone();
                self.overwrite(bot, row, text);
            }
            ("delete", Some(row)) => {
                let (seq, _) = self.rows.get_mut(bot).unwrap().swap_remove(row);
                self.service.delete(bot, seq);
            }
            ("person", _) => {
                let text = self.text("asked");
                self.append(bot, text.clone(), rows::asked(&text));
            }
            ("nothing for people", _) => {
                let text = self.text("murmured");
                let body = if self.rng.bool() { rows::murmured(&text) } else { rows::routine(&text) };
                let seq = self.append(bot, text, body);
                self.ledger.murmured(bot, seq);
            }
            ("body elsewhere", row) => {
                let text = self.text("stored");
                let hash = format!("hash {}", self.step);
                self.service.store_blob(&hash, rows::said(&text));
                let seq = if let Some(row) = row.filter(|_| self.rng.bool()) {
                    let (seq, texts) = &mut self.rows.get_mut(bot).unwrap()[row];
                    self.service.overwrite(bot, *seq, rows::blob(&hash));
                    texts.push(text);
                    *seq
                } else {
                    let seq = self.service.append(bot, rows::blob(&hash));
                    self.rows.entry(bot).or_default().push((seq, vec![text]));
                    seq
                };
                self.ledger.elsewhere(bot, seq);
            }
            ("body cut", _) => {
                let text = self.text("cut");
                let seq = self.service.append_omitted(bot, rows::said(&text));
                self.rows.entry(bot).or_default().push((seq, vec![text]));
                self.ledger.elsewhere(bot, seq);
            }
            ("question", _) => {
                let prompt = self.text("well?");
                let seq = self.service.append(bot, rows::question(&prompt, &OPTIONS));
                self.questions.entry(bot).or_default().push((seq, prompt));
            }
            ("answered elsewhere" | "answer taken back" | "dismissed", _) => {
                let questions = self.questions.entry(bot).or_default();
                if let Some((seq, prompt)) = self.rng.choice(&*questions) {
                    let answer = (kind == "answered elsewhere").then(|| ["y", "n", "else"][self.rng.usize(..3)]);
                    self.service.overwrite(bot, *seq, rows::widget(prompt, &OPTIONS, answer, kind == "dismissed"));
                }
            }
            ("busy", _) => self.service.live(bot, rows::tool(&self.text("step"))),
            ("idle", _) => self.service.live(bot, rows::idle()),
            ("turn failed", _) => self.service.push(Frame::TurnFailed {
                agent_id: bot.into(),
                failure: TurnFailure { code: "scripted".into(), summary: "scripted".into() },
            }),
            ("clear" | "clear silently", _) => {
                self.rows.remove(bot);
                self.questions.remove(bot);
                let generation = u64::from(self.step) + 10;
                if kind == "clear" {
                    self.service.clear(bot, generation);
                } else {
                    self.service.clear_silently(bot, generation);
                }
            }
            ("edit" | "back to before" | "delete", None) => {}
            _ => return false,
        }
        true
    }

    /// What goes wrong with the service and on the way to it.
    fn wrong_at_the_service(&mut self, kind: &str, bot: &'static str) -> bool {
        let fault = Fault::any(&mut self.rng);
        match kind {
            "forget changes" => self.service.forget_changes(bot),
            "rename" => {
                self.service.rename_bot(bot, &self.text("Bot"));
                self.service.roster_changed();
            }
            "harness" => {
                self.ledger.moves(bot);
                self.service.moves_to(bot, if self.rng.bool() { Harness::Box } else { Harness::Other });
                self.service.roster_changed();
            }
            "bot gone" => {
                self.service.remove_bot(bot);
                self.service.roster_changed();
            }
            "bot back" => {
                self.service.list_bot(if bot == HIS { BEN } else { ANN }, bot);
                self.service.roster_changed();
            }
            "streams end" => self.service.end_streams(),
            "streams break" => self.service.break_streams(any_error(&mut self.rng)),
            "cut" => self.net.cut(),
            "stall" => self.net.stall(Duration::from_secs(self.rng.u64(1..100))),
            "manner" => self.service.next_streams([match self.rng.u8(0..5) {
                0 => Manner::EndsAtOnce,
                1 => Manner::Mute,
                2 => Manner::Silent,
                _ => Manner::Lives(Duration::from_secs(self.rng.u64(1..20))),
            }]),
            "slow list" => self.service.fault(Request::is_list, fault),
            "slow stream" => self.service.fault(Request::is_watch, fault),
            "slow body" => {
                // Now and then to the end of all tries.
                let fault = if self.rng.bool() { fault } else { fault.times(6) };
                self.service.fault(|request| matches!(request, Request::Blob(_)), fault);
            }
            "slow send" => self.service.fault(|request| request.is_send() || request.is_status(), fault),
            "slow answer" => self.service.fault(Request::is_widget, fault),
            "slow roster" => self.service.fault(|request| *request == Request::Agents, fault),
            "slow me" => self.service.fault(|request| *request == Request::Me, fault),
            "refused send" => {
                let code = || "scripted".to_owned();
                if self.rng.bool() {
                    let refused = Answer::Delivery(Delivery::Refused { code: code() });
                    self.service.fault(Request::is_send, Fault::answer(refused).once());
                } else {
                    let refused = Answer::Widget(WidgetAnswer::Refused { code: code() });
                    self.service.fault(Request::is_widget, Fault::answer(refused).once());
                }
            }
            _ => return false,
        }
        true
    }

    fn sign_in_and_disk(&mut self, kind: &str) -> bool {
        match kind {
            "token expires" => {
                if let Some(token) = self.desk.current() {
                    self.service.reject(&token);
                }
            }
            "no renewal" => {
                self.desk.no_renewal(Some(TokenError::Transient { detail: "scripted".to_owned(), retry_after: None }));
            }
            "renewal" => self.desk.no_renewal(None),
            "another account" => self.desk.sign_in_as(BEN),
            "same account" => self.desk.sign_in_as(ANN),
            "sign-in ends" => self.desk.end(ANN),
            "disk full" => self.disk.full(true),
            "disk unreadable" => self.disk.unreadable(true),
            "disk mended" => {
                self.disk.full(false);
                self.disk.unreadable(false);
            }
            _ => return false,
        }
        true
    }

    /// What a host does.
    fn at_a_host(&mut self, kind: &str) {
        let number = self.rng.usize(..self.hosts.len());
        if kind == "host comes" {
            // One that isn't there.
            for host in 0..self.hosts.len() {
                self.connect(host);
            }
            return;
        }
        let host = self.hosts[number].clone();
        if !host.lock().connected {
            return;
        }
        match kind {
            "list" => host.with(super::host::State::list),
            "host pauses" => host.with(|host| host.pause(Duration::from_millis(self.rng.u64(0..8_000)))),
            "host slow" => host.with(|host| host.slow = self.rng.u64(0..400)),
            "host vanishes" if number > 0 => host.with(super::host::State::vanish),
            "host closes" if number > 0 => host.with(super::host::State::close),
            "sign out" => host.with(|host| host.resource("resource/signOut")),
            "sign in" => {
                let what = if self.rng.bool() { "resource/signIn" } else { "resource/cancelSignIn" };
                host.with(|host| host.resource(what));
            }
            kind => {
                let listed = host.lock().listed();
                let Some(record) = self.rng.choice(&listed).cloned() else { return };
                match kind {
                    "odd read" => host.with(|host| host.read_oddly(&record, &mut self.rng)),
                    "whole read" => host.with(|host| host.read_whole(&record)),
                    "bind" => host.with(|host| host.open_bind(&record)),
                    _ => host.with(|host| self.post(host, kind, &record)),
                }
            }
        }
    }

    fn post(&mut self, host: &mut super::host::State, kind: &str, record: &str) {
        self.requests += 1;
        let text = format!("posted {}", self.requests);
        let request = format!("r{}", self.requests);
        let known: Vec<(String, Vec<String>)> = host.records[record]
            .messages
            .values()
            .map(|message| (message.id.clone(), message.options.clone()))
            .collect();
        let nothing = Value::Null;
        match kind {
            "post again" => {
                // The newest request of this host to the record once more, as after a restart of the host. (That of another host is another one.)
                let Some(number) = host.newest.get(record).copied() else { return };
                host.post(record, &format!("posted {number}"), &format!("r{number}"), None, &[], &nothing);
            }
            "reply" => {
                let to = self.rng.choice(&known).map_or_else(|| "0:none".to_owned(), |(id, _)| id.clone());
                host.post(record, &text, &request, Some(&to), &[], &nothing);
            }
            "odd post" => {
                let (text, more) = match self.rng.u8(0..4) {
                    0 => (text, json!({"draft": true})),
                    1 => (text, json!({"attachments": [1]})),
                    2 => (" \u{200b}\n".to_owned(), nothing),
                    _ => (text, json!({"replyTo": "0:none:at:all"})),
                };
                let to = more.get("replyTo").and_then(Value::as_str);
                host.post(record, &text, &request, to, &[], &more);
            }
            "answer" => {
                let questions: Vec<&String> =
                    known.iter().filter(|(_, options)| !options.is_empty()).map(|(id, _)| id).collect();
                let Some(to) = self.rng.choice(questions) else { return };
                let text = ["Yes", "y", " n ", "No", "perhaps"][self.rng.usize(..5)];
                self.history.note(format_args!("* answers {to} of {}", bot_of(record)));
                host.post(record, text, &request, Some(to), &["Yes", "No"], &nothing);
            }
            _ => {
                host.newest.insert(record.to_owned(), self.requests);
                host.post(record, &text, &request, None, &[], &nothing);
            }
        }
    }
}
