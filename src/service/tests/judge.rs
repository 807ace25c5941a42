//! What holds when the weather is over.

use std::collections::BTreeMap;

use super::host::Settled;
use super::model::bot;
use super::net::Weather;
use super::world::{HERS, HIS, World};
use crate::model::AgentId;
use crate::records::record_id;
use crate::watch::tests::bed::fault::Request;
use crate::watch::tests::bed::{ANN, clock, rows};

/// Longer than any wait after a failure, a stream without a word, a lost body.
const CALM: u64 = 200_000;
/// How often the loop may wake in a quiet minute: heartbeats, the roster, and what hosts ask.
const TURNS: u64 = 30;

impl World {
    /// Everything is well again, and time passes.
    pub(super) async fn calm(&mut self) {
        self.history.note("--- calm");
        self.disk.stick(None);
        self.disk.full(false);
        self.disk.unreadable(false);
        self.service.mend();
        self.service.normal_streams();
        self.net.weather(Weather { latency: 100, ..Weather::default() });
        self.desk.no_renewal(None);
        self.desk.sign_in_as(ANN);
        for bot in HERS {
            self.service.list_bot(ANN, bot);
        }
        if self.provider.is_none() {
            self.start();
        }
        for host in 0..self.hosts.len() {
            self.hosts[host].with(super::host::State::hurry);
            // One that is just leaving has gone by then.
            self.pass(1_700).await;
            self.connect(host);
        }
        // A sign-out that a host had asked for just before has come by then.
        self.desk.sign_in_as(ANN);
        self.hosts[0].with(|host| host.resource("resource/cancelSignIn"));
        self.pass(CALM).await;
        // What was lost for good while its calls failed comes with the next full read.
        self.service.end_streams();
        self.pass(CALM).await;
        // On one stream, so that no snapshot helps: what is shown follows each state.
        for bot in HERS {
            self.service.live(bot, rows::tool(&format!("last of {bot}")));
        }
        self.pass(1_000).await;
        for bot in HERS {
            if self.rng.bool() {
                self.service.live(bot, rows::idle());
            }
        }
        let turns = clock::turns();
        self.pass(60_000).await;
        let turns = clock::turns() - turns;
        self.history.hold(turns <= TURNS, || format!("the loop turned {turns} times in a quiet minute"));
        for host in &self.hosts {
            for bot in HERS {
                let record = self.record(bot);
                host.with(|host| host.read_whole(&record));
            }
        }
        self.pass(1_000).await;
        // The roster's turn may be just now.
        for _ in 0..10 {
            if self.service.calls_now() > 0 {
                self.pass(100).await;
            }
        }
    }

    fn record(&self, bot: &str) -> String {
        let account = self.provider.as_ref().and_then(|provider| provider.handle.as_ref()).unwrap().status().account;
        account.map_or_else(String::new, |account| record_id(&account, &AgentId::from(bot)).to_string())
    }

    pub(super) fn judge(&mut self) {
        let history = self.history.clone();
        let status = self.provider.as_ref().and_then(|provider| provider.handle.as_ref()).unwrap().status();
        history.hold(status.message.is_none(), || format!("all is well, and the page says {:?}", status.message));
        history.hold(self.service.calls_now() == 0, || "a call goes on".to_owned());
        history.hold(self.service.open_streams() == 1, || format!("{} streams", self.service.open_streams()));
        for host in &self.hosts {
            let host = host.lock();
            history.hold(host.connected, || format!("{} isn't connected", host.name));
            history.hold(host.waiting().is_empty(), || format!("{} waits for {:?}", host.name, host.waiting()));
            let listed: Vec<&str> =
                host.records.iter().filter(|(_, record)| record.listed).map(|(name, _)| bot(name)).collect();
            history.hold(listed == HERS, || format!("{} sees {listed:?}", host.name));
            for name in HERS {
                let Some(record) = host.records.get(&self.record(name)) else { continue };
                let (is, should) = (record.readable(), self.service.readable(name));
                history.hold(is == should, || format!("{} reads of {name}: {}", host.name, difference(&is, &should)));
                let doubled = record.doubled();
                history.hold(doubled.is_empty(), || format!("{name}: told twice: {doubled:?}"));
                history.hold(record.position.is_none_or(|at| Some(at) == record.told || record.told.is_none()), || {
                    format!("{} stopped at {:?} of {:?}", host.name, record.position, record.told)
                });
                let wanted = self.service.activity(name);
                history.hold(record.activity == wanted, || {
                    format!("{name} does {wanted:?}, and {} shows {:?}", host.name, record.activity)
                });
            }
        }
        self.judge_runs();
    }

    fn judge_runs(&self) {
        let history = &self.history;
        let mut sends: BTreeMap<String, usize> = BTreeMap::new();
        let mut codes: BTreeMap<String, usize> = BTreeMap::new();
        for (_, request) in self.service.log(Request::is_send) {
            if let Request::Send(send) = request {
                *sends.entry(send.message_id.clone()).or_default() += 1;
                if let Some((_, code)) = send.text.rsplit_once(' ').filter(|(_, code)| code.starts_with("code-")) {
                    *codes.entry(code.to_owned()).or_default() += 1;
                }
            }
        }
        for host in &self.hosts {
            let host = host.lock();
            for (id, run) in &host.runs {
                let twins = host.runs.values().filter(|other| other.message_id == run.message_id).count();
                let sent = sends.get(&run.message_id.to_string()).copied().unwrap_or(0);
                // Only a 401 is followed by a second send.
                history.hold(sent <= 2 * twins, || format!("{id} was sent {sent} times"));
                if run.refused {
                    history.hold(sent == 0 || twins > 1, || format!("{id} was refused and sent"));
                    continue;
                }
                let landed = self.service.landed(run.message_id);
                match &run.settled {
                    None => history.wrong(format_args!("{id} was never settled")),
                    // The answer to a question leaves no message of its own.
                    Some(Settled::Completed) => {
                        history.hold(landed || run.answers, || format!("{id} is completed and not there"));
                    }
                    // Nobody can be sure.
                    Some(Settled::Failed(why)) if why == "unknown" => {}
                    Some(Settled::Failed(why)) => {
                        history.hold(!landed || twins > 1, || format!("{id} failed ({why}), and yet it was posted"));
                    }
                }
            }
        }
        for (code, sent) in codes {
            history.hold(sent <= 2, || format!("{code} was sent {sent} times"));
        }
        let strangers = self.service.readable(HIS);
        history.note(format_args!("{HIS} ends with {} messages", strangers.len()));
    }
}

fn difference(is: &BTreeMap<String, String>, should: &BTreeMap<String, String>) -> String {
    let missing = should.iter().filter(|(id, text)| is.get(*id) != Some(text));
    let extra = is.iter().filter(|(id, _)| !should.contains_key(*id));
    let missing: Vec<String> = missing.map(|(id, text)| format!("{id} is {:?} and not {text:?}", is.get(id))).collect();
    let extra: Vec<String> = extra.map(|(id, text)| format!("{id} is {text:?} and is gone")).collect();
    [missing, extra].concat().join(", ")
}
