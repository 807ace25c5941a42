//! How the service answers.

use std::sync::Arc;

use oauth2::AccessToken;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::fault::{Answer, Request, error};
use super::frames::{HEARTBEAT, Manner, Stream};
use super::service::{Service, State, rows_frame};
use super::{clock, rows};
use crate::model::{AgentId, Card, Content, Row, RowBody, Widget};
use crate::upstream::{
    Call, Delivery, Error, ErrorKind, Frame, Frames, Me, Page, PageRequest, Roster, SendRequest, SendStatus, Upstream,
    WatchRequest, WidgetAnswer, WidgetRequest,
};

impl State {
    fn open(&mut self, subject: &str, request: &WatchRequest) -> Result<Box<dyn Frames>, Error> {
        let manner = self.manners.pop_front().unwrap_or(Manner::Normal);
        let (sender, items) = mpsc::unbounded_channel();
        // A receiver that is gone was dropped with the stream below: it isn't.
        let send = |frame| drop(sender.send(Ok(Some(frame))));
        let server_time = Some(clock::right());
        if manner != Manner::Mute {
            send(Frame::Connected { server_time, lifetime: None });
        }
        let account = self.account(subject)?;
        let mut stream = Stream { items, heartbeat: Some(Instant::now() + HEARTBEAT), ends: None };
        match manner {
            Manner::Mute => stream.heartbeat = None,
            Manner::Silent => {
                stream.heartbeat = None;
                send(Frame::Heartbeat);
            }
            Manner::EndsAtOnce => drop(sender.send(Ok(None))),
            Manner::Normal | Manner::Lives(_) | Manner::NoReplay => {
                if let Manner::Lives(time) = manner {
                    stream.ends = Some(Instant::now() + time);
                }
                for (agent, cursor) in &request.cursors {
                    let Some(transcript) = account.transcripts.get(agent) else { continue };
                    let bot = agent.as_str();
                    if cursor.generation != transcript.generation || cursor.number < transcript.forgotten {
                        let generation = Some(transcript.generation);
                        send(Frame::CursorTooOld { agent_id: agent.clone(), generation });
                    } else if manner != Manner::NoReplay {
                        let (rows, deletes) = transcript.past(cursor.number);
                        if !rows.is_empty() || !deletes.is_empty() {
                            send(rows_frame(bot, transcript.generation, rows, deletes));
                        }
                    }
                }
                let live = account.live.iter().map(|(agent, state)| (agent.clone(), state.clone())).collect();
                send(Frame::AgentState { snapshot: true, live });
                self.streams.push((subject.to_owned(), sender.clone()));
            }
        }
        Ok(Box::new(stream))
    }

    fn send(&mut self, subject: &str, request: &SendRequest) -> Result<Delivery, Error> {
        let (no_echo, rewrite) = (self.no_echo, self.rewrite);
        let transcript = self.transcript(subject, &request.agent_id)?;
        if !no_echo && !transcript.holds(&request.message_id) {
            let text = rewrite.map_or_else(|| request.text.to_string(), |rewrite| rewrite(&request.text));
            let row = transcript.append(rows::echo(&text, &request.message_id, request.reply_to.as_ref()));
            let frame = rows_frame(request.agent_id.as_str(), transcript.generation, vec![row], vec![]);
            self.landed.insert(request.message_id.clone());
            self.tell(&frame);
        }
        Ok(Delivery::Accepted)
    }

    fn respond(&mut self, subject: &str, request: &WidgetRequest) -> Result<WidgetAnswer, Error> {
        let no_echo = self.no_echo;
        let transcript = self.transcript(subject, &request.agent_id)?;
        let Some((seq, widget)) = transcript.find(&request.entry_id).and_then(widget_of) else {
            return Ok(WidgetAnswer::Refused { code: "widget/stale".to_owned() });
        };
        if widget.responded.is_some() || widget.closed {
            return Ok(WidgetAnswer::Refused { code: "widget/stale".to_owned() });
        }
        if !no_echo {
            let options: Vec<_> = widget.options.iter().map(|option| (&*option.label, &*option.value)).collect();
            let body = rows::widget(&widget.prompt, &options, Some(&request.value), false);
            let row = transcript.overwrite(seq, body);
            let frame = rows_frame(request.agent_id.as_str(), transcript.generation, vec![row], vec![]);
            self.tell(&frame);
        }
        Ok(WidgetAnswer::Accepted)
    }
}

fn widget_of(row: &Row) -> Option<(u64, Arc<Widget>)> {
    match &row.body {
        RowBody::Entry(entry) => match &entry.content {
            Content::Sent(Card::Widget(widget)) => Some((row.seq, Arc::clone(widget))),
            _ => None,
        },
        _ => None,
    }
}

/// For calls whose answer no fault of this kind changes.
fn unfit<T>(_: Answer, _: Option<Result<T, Error>>) -> Result<T, Error> {
    panic!("this fault's answer doesn't fit the call")
}

impl Upstream for Service {
    fn me(&self, token: AccessToken) -> Call<Me> {
        let act = |state: &mut State, subject: &str| {
            state.account(subject)?.me.clone().ok_or_else(|| error(ErrorKind::Permanent))
        };
        self.call(Request::Me, token, act, unfit)
    }

    fn agents(&self, token: AccessToken) -> Call<Roster> {
        let act = |state: &mut State, subject: &str| {
            let bots = state.account(subject)?.bots.clone();
            Ok(Roster { bots, skipped: 0, date: Some(clock::right()) })
        };
        self.call(Request::Agents, token, act, |answer, _| match answer {
            Answer::Roster(roster) => Ok(roster),
            other => unfit(other, None),
        })
    }

    fn entries(&self, token: AccessToken, mut request: PageRequest) -> Call<Page> {
        let logged = Request::Entries(request.clone());
        let act = move |state: &mut State, subject: &str| {
            request.limit = request.limit.min(state.page_limit.unwrap_or(u32::MAX));
            Ok(state.transcript(subject, &request.agent_id)?.list(&request))
        };
        self.call(logged, token, act, |answer, done| match (answer, done) {
            (Answer::Page(change), Some(page)) => page.map(|page| change(page)),
            (other, done) => unfit(other, done),
        })
    }

    fn watch(&self, token: AccessToken, request: WatchRequest) -> Call<Box<dyn Frames>> {
        let logged = Request::Watch(request.clone());
        self.call(logged, token, move |state, subject| state.open(subject, &request), unfit)
    }

    fn blob(&self, token: AccessToken, hash: Arc<str>, _: Arc<str>) -> Call<Option<RowBody>> {
        let logged = Request::Blob(Arc::clone(&hash));
        self.call(logged, token, move |state, _| Ok(state.blobs.get(&hash).cloned()), unfit)
    }

    fn send(&self, token: AccessToken, request: SendRequest) -> Call<Delivery> {
        let logged = Request::Send(request.clone());
        self.call(
            logged,
            token,
            move |state, subject| state.send(subject, &request),
            |answer, _| match answer {
                Answer::Delivery(delivery) => Ok(delivery),
                other => unfit(other, None),
            },
        )
    }

    fn send_status(&self, token: AccessToken, agent_id: AgentId, message_id: String) -> Call<SendStatus> {
        let logged = Request::Status(agent_id.clone(), message_id.clone());
        let act = move |state: &mut State, subject: &str| {
            // Also of one whose row was cleared away since.
            let holds = state.transcript(subject, &agent_id)?.holds(&message_id);
            Ok(if holds || state.landed.contains(&message_id) { SendStatus::Other } else { SendStatus::NotFound })
        };
        self.call(logged, token, act, |answer, _| match answer {
            Answer::Status(status) => Ok(status),
            other => unfit(other, None),
        })
    }

    fn respond_widget(&self, token: AccessToken, request: WidgetRequest) -> Call<WidgetAnswer> {
        let logged = Request::Widget(request.clone());
        self.call(
            logged,
            token,
            move |state, subject| state.respond(subject, &request),
            |answer, _| match answer {
                Answer::Widget(answer) => Ok(answer),
                other => unfit(other, None),
            },
        )
    }
}
