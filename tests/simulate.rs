//! The simulated service over real sockets, with a plain HTTP client and envelopes read by hand: no code of the provider's side.

#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy knows only the test functions themselves")]

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use coda_grok_bot::simulate::{
    Account, Act, Change, Control, Echo, Fault, ListOrder, Live, NewBot, Options, Quirks, Simulation, StreamEnd,
    StreamPlan,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const SERVICE: &str = "aiserver.v1.GrokBotService";
const CLIENT_ID: &str = "KbZUR41cY7W6zRSdpSUJ7I7mLYBKOCmB";
/// Far more than anything here takes; a test that reaches it hangs.
const LIMIT: Duration = Duration::from_secs(20);

struct Bench {
    simulation: Simulation,
    control: Control,
    http: reqwest::Client,
    token: String,
}

impl Bench {
    async fn new(options: Options) -> Self {
        // Another client of this process may have installed one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let simulation = Simulation::start(options).await.unwrap();
        let control = simulation.control();
        let token = control.issue_tokens().access;
        let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { simulation, control, http, token }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.simulation.base_url())
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let request =
            self.http.post(self.url(path)).bearer_auth(&self.token).header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.unwrap();
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn call(&self, method: &str, body: Value) -> Value {
        let (status, body) = self.post(&format!("{SERVICE}/{method}"), &body).await;
        assert_eq!(status, 200, "{method}: {body}");
        body
    }

    async fn watch(&self, body: &Value) -> Reader {
        let request = self.http.post(self.url(&format!("{SERVICE}/WatchGrokBotTranscripts"))).bearer_auth(&self.token);
        let request = request.header("content-type", "application/connect+json").body(envelope(&body.to_string()));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Reader { response, bytes: Vec::new(), chunks: 0 }
    }

    /// A stream over one Bot from a cursor, past `connected` and the snapshots.
    async fn watch_from(&self, agent: &str, generation: u32, after: u64) -> Reader {
        let cursor =
            json!({"agentId": agent, "generation": generation, "afterUpdatedSeq": after.to_string(), "sessionId": ""});
        let mut reader = self
            .watch(&json!({"cursors": [cursor], "includeUnlistedAgents": true, "inlineBodyMaxBytes": 262_144}))
            .await;
        for kind in ["connected", "agentState", "boxState"] {
            let frame = reader.frame().await;
            assert!(frame.get(kind).is_some(), "{kind} expected: {frame}");
        }
        reader
    }
}

fn envelope(payload: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(payload.as_bytes());
    bytes
}

struct Reader {
    response: reqwest::Response,
    bytes: Vec<u8>,
    chunks: usize,
}

#[derive(Debug, PartialEq)]
enum Read {
    Frame(u8, Value),
    /// The body ended.
    Over,
    /// The connection broke.
    Broken,
}

impl Reader {
    async fn read(&mut self) -> Read {
        loop {
            if self.bytes.len() >= 5 {
                let length = u32::from_be_bytes(self.bytes[1..5].try_into().unwrap()) as usize;
                if self.bytes.len() >= 5 + length {
                    let payload: Vec<u8> = self.bytes.drain(..5 + length).collect();
                    return Read::Frame(payload[0], serde_json::from_slice(&payload[5..]).unwrap());
                }
            }
            match tokio::time::timeout(LIMIT, self.response.chunk()).await.expect("a chunk in time") {
                Ok(Some(chunk)) => {
                    self.chunks += 1;
                    self.bytes.extend(&chunk);
                }
                Ok(None) => return Read::Over,
                Err(_) => return Read::Broken,
            }
        }
    }

    async fn frame(&mut self) -> Value {
        match self.read().await {
            Read::Frame(0, frame) => frame,
            other => panic!("a frame expected: {other:?}"),
        }
    }
}

fn body_of(entry: &Value) -> Value {
    serde_json::from_slice(&STANDARD.decode(entry["body"].as_str().unwrap()).unwrap()).unwrap()
}

fn unhex(hash: &str) -> Vec<u8> {
    (0..hash.len()).step_by(2).map(|at| u8::from_str_radix(&hash[at..at + 2], 16).unwrap()).collect()
}

fn seqs(answer: &Value) -> Vec<&str> {
    answer["entries"].as_array().unwrap().iter().map(|entry| entry["seq"].as_str().unwrap()).collect()
}

fn link(bench: &Bench, uuid: &str, verifier: &str) -> String {
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
    bench.url(&format!(
        "loginDeepControl?challenge={challenge}&uuid={uuid}&mode=login&redirectTarget=sand&supportsSelectedTeamLogin=true"
    ))
}

const UUID: &str = "11111111-1111-4111-8111-111111111111";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

#[tokio::test]
async fn a_person_confirms_on_the_page_and_the_poll_brings_tokens_once() {
    let bench = Bench::new(Options::default()).await;
    let poll = json!({"uuid": UUID, "verifier": VERIFIER});
    assert_eq!(bench.post("auth/poll", &poll).await, (404, json!("Not found")));

    let page = bench.http.get(link(&bench, UUID, VERIFIER)).send().await.unwrap();
    let policy = page.headers()["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    let html = page.text().await.unwrap();
    assert!(html.contains("继续") && html.contains("Continue"));
    assert_eq!(bench.post("auth/poll", &poll).await.0, 404, "opened is not confirmed");

    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
    let form = format!("uuid={UUID}&challenge={challenge}");
    let confirmed = bench.http.post(bench.url("loginDeepControl/confirm")).body(form).send().await.unwrap();
    assert_eq!(confirmed.status(), 200);

    let wrong = json!({"uuid": UUID, "verifier": "wrong"});
    assert_eq!(bench.post("auth/poll", &wrong).await.0, 404, "a wrong verifier stays pending");
    let (status, tokens) = bench.post("auth/poll", &poll).await;
    assert_eq!(status, 200);
    assert_eq!(tokens["accessToken"].as_str().unwrap().split('.').count(), 3);
    assert_eq!(bench.post("auth/poll", &poll).await.0, 404, "the tokens come once");

    let renewal =
        json!({"grant_type": "refresh_token", "client_id": CLIENT_ID, "refresh_token": tokens["refreshToken"]});
    let (status, renewed) = bench.post("oauth/token", &renewal).await;
    assert_eq!((status, &renewed["shouldLogout"]), (200, &json!(false)));
    bench.control.revoke_tokens();
    let (status, dead) = bench.post("oauth/token", &renewal).await;
    assert_eq!((status, dead), (200, json!({"access_token": "", "id_token": "", "shouldLogout": true})));
    let form = bench.http.post(bench.url("oauth/token")).header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(form.body("grant_type=refresh_token").send().await.unwrap().status(), 415);
}

#[tokio::test]
async fn the_poll_can_be_an_unknown_route_for_post_and_confirm_itself() {
    let bench = Bench::new(Options { auto_confirm: Some(2), ..Options::default() }).await;
    bench.control.quirks(|quirks| quirks.poll_only_get = true);
    let (status, body) = bench.post("auth/poll", &json!({"uuid": UUID, "verifier": VERIFIER})).await;
    assert_eq!((status, &body["message"]), (404, &json!("Route POST:/auth/poll not found")));
    let get = bench.url(&format!("auth/poll?uuid={UUID}&verifier={VERIFIER}"));
    assert_eq!(bench.http.get(&get).send().await.unwrap().status(), 404);
    let answer = bench.http.get(&get).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(!format!("{:?}", bench.control.requests("auth/poll")).contains(VERIFIER));
}

#[tokio::test]
async fn every_call_wants_a_token_that_is_still_good() {
    let bench = Bench::new(Options::default()).await;
    assert_eq!(bench.call("ListGrokBotAgents", json!({})).await, json!({}), "no Bots: an empty message");
    bench.control.expire_access_tokens(false);
    let (status, body) = bench.post(&format!("{SERVICE}/ListGrokBotAgents"), &json!({})).await;
    assert_eq!((status, &body["code"]), (401, &json!("unauthenticated")));
    let (status, body) = bench.post("aiserver.v1.DashboardService/GetMe", &json!({})).await;
    assert_eq!((status, &body["code"]), (401, &json!("unauthenticated")));
    let (status, body) = bench.post(&format!("{SERVICE}/NoSuchMethod"), &json!({})).await;
    assert!(status == 404 && body.is_string(), "an unknown method has no Connect answer: {body}");
}

#[tokio::test]
async fn lists_are_newest_first_bounded_and_written_as_upstream_writes() {
    let bench = Bench::new(Options::default()).await;
    let agent = bench.control.add_bot(NewBot::named("小艾"));
    for number in 0..5 {
        bench.control.say(&agent, &format!("e{number}"), "你好").unwrap();
    }
    let agents = bench.call("ListGrokBotAgents", json!({})).await;
    let bot = &agents["agents"][0];
    assert_eq!(bot["agentId"], agent.as_str());
    assert_eq!(bot["kind"], "GROK_BOT_AGENT_KIND_AGENT");
    assert!(bot["createdAtMs"].is_string() && bot.get("viewerSessionId").is_none());

    let page = bench.call("ListGrokBotTranscriptEntries", json!({"agentId": agent, "limit": 2})).await;
    assert_eq!((seqs(&page), &page["generation"]), (vec!["5", "4"], &json!(1)));
    let older = json!({"agentId": agent, "limit": 2, "beforeSeq": "4", "generation": 1});
    assert_eq!(seqs(&bench.call("ListGrokBotTranscriptEntries", older).await), ["3", "2"]);
    let body = body_of(&page["entries"][0]);
    assert_eq!(body["message"]["content"], "你好");
    assert!(body["timestampMs"].is_number(), "a body is no proto JSON");

    bench.control.quirks(|quirks| {
        quirks.list_order = ListOrder::OldestFirst;
        quirks.ignore_limit = true;
        quirks.ignore_before_seq = true;
    });
    let odd = bench.call("ListGrokBotTranscriptEntries", json!({"agentId": agent, "limit": 1, "beforeSeq": "2"})).await;
    assert_eq!(seqs(&odd), ["1", "2", "3", "4", "5"]);
    bench.control.script_list_generations(&agent, &[1, 4]);
    let one = json!({"agentId": agent});
    assert_eq!(bench.call("ListGrokBotTranscriptEntries", one.clone()).await["generation"], 1);
    assert_eq!(bench.call("ListGrokBotTranscriptEntries", one).await["generation"], 4);
    assert_eq!(bench.control.count("ListGrokBotTranscriptEntries"), 5);
}

#[tokio::test]
async fn a_sent_message_is_echoed_once_whatever_happens_to_the_answer() {
    let bench = Bench::new(Options::default()).await;
    let agent = bench.control.add_bot(NewBot::named("a"));
    let message = json!({"agentId": agent, "messageId": "m-1", "text": "hi", "sentAtMs": "1790000000000"});
    // The effect takes place, then the connection breaks: the sender can't know.
    bench.control.fault(Fault::next("SendGrokBotUserMessage", Act::Drop).after());
    let broken = bench.http.post(bench.url(&format!("{SERVICE}/SendGrokBotUserMessage"))).bearer_auth(&bench.token);
    let broken = broken.header("content-type", "application/json").body(message.to_string()).send().await;
    assert!(broken.is_err(), "{broken:?}");

    let status = bench.call("GetGrokBotSendStatus", json!({"agentId": agent, "messageId": "m-1"})).await;
    assert_eq!((&status["status"], &status["echoEntryId"]), (&json!("GROK_BOT_SEND_STATUS_ACCEPTED"), &json!("t1u")));
    let again = bench.call("SendGrokBotUserMessage", message).await;
    assert_eq!(again, json!({"delivery": "GROK_BOT_USER_MESSAGE_DELIVERY_DUPLICATE"}));
    let page = bench.call("ListGrokBotTranscriptEntries", json!({"agentId": agent})).await;
    assert_eq!(page["entries"].as_array().unwrap().len(), 1);
    let body = body_of(&page["entries"][0]);
    assert_eq!((&body["clientNonce"], &body["role"]), (&json!("m-1"), &json!("user")));

    let none = bench.call("GetGrokBotSendStatus", json!({"agentId": agent, "messageId": "m-2"})).await;
    assert_eq!(none["status"], "GROK_BOT_SEND_STATUS_NOT_FOUND");
    bench.control.quirks(|quirks| quirks.echo = Echo::Held);
    bench.call("SendGrokBotUserMessage", json!({"agentId": agent, "messageId": "m-2", "text": "x"})).await;
    let pending = bench.call("GetGrokBotSendStatus", json!({"agentId": agent, "messageId": "m-2"})).await;
    assert_eq!(pending["status"], "GROK_BOT_SEND_STATUS_PENDING");
    bench.control.release_echoes();
    assert_eq!(bench.control.rows(&agent).len(), 2);
}

#[tokio::test]
async fn a_stream_replays_past_its_cursor_only_and_then_lives() {
    let bench = Bench::new(Options::default()).await;
    let agent = bench.control.add_bot(NewBot::named("a"));
    for number in 1..=3 {
        bench.control.say(&agent, &format!("e{number}"), "x").unwrap();
    }
    bench.control.delete(&agent, "e1").unwrap();
    let mut reader = bench.watch_from(&agent, 1, 2).await;
    let replay = reader.frame().await;
    assert_eq!((&replay["rows"]["replay"], seqs(&replay["rows"])), (&json!(true), vec!["3"]));
    assert_eq!(replay["rows"]["deletes"], json!([{"seq": "1", "updatedSeq": "4", "entryId": "e1"}]));

    bench.control.resay(&agent, "e2", "longer").unwrap();
    let live = reader.frame().await;
    assert!(live["rows"].get("replay").is_none());
    assert_eq!(
        (&live["rows"]["entries"][0]["seq"], &live["rows"]["entries"][0]["updatedSeq"]),
        (&json!("2"), &json!("5"))
    );

    bench.control.set_live(&agent, "", Some(Live::tool("Shell", "列出文件", "/tmp")));
    let state = reader.frame().await;
    assert_eq!(state["agentState"]["live"][0]["activity"]["detail"], "列出文件");
    assert!(state["agentState"].get("snapshot").is_none());
    bench.control.set_live(&agent, "", None);
    assert!(reader.frame().await["agentState"]["live"][0].get("isRunning").is_none());

    bench.control.clear(&agent);
    assert_eq!(reader.frame().await, json!({"cleared": {"agentId": agent, "newGeneration": 2}}));
    let mut late = bench.watch_from(&agent, 1, 5).await;
    assert_eq!(late.frame().await, json!({"cursorTooOld": {"agentId": agent, "generation": 2}}));
    bench.control.say(&agent, "n1", "new").unwrap();
    assert_eq!(late.frame().await["rows"]["generation"], 2, "a refused cursor's Bot lives on");
}

#[tokio::test]
async fn unlisted_bots_are_admitted_live_and_without_a_replay() {
    let bench = Bench::new(Options::default()).await;
    let (listed, other) = (bench.control.add_bot(NewBot::named("a")), bench.control.add_bot(NewBot::named("b")));
    bench.control.say(&other, "old", "x").unwrap();
    let mut reader = bench.watch_from(&listed, 1, 0).await;
    bench.control.apply(&other, "dm-1", &[Change::Add { body: json!({"id": "private"}), seq: None }]).unwrap();
    bench.control.say(&other, "new", "x").unwrap();
    let frame = reader.frame().await;
    assert_eq!(frame["rows"]["entries"][0]["entryId"], "new", "no replay, no other session: {frame}");
}

#[tokio::test]
async fn a_bare_body_gets_415() {
    let bench = Bench::new(Options::default()).await;
    let request = bench.http.post(bench.url(&format!("{SERVICE}/WatchGrokBotTranscripts"))).bearer_auth(&bench.token);
    let response = request.header("content-type", "application/connect+json").body("{}").send().await.unwrap();
    assert_eq!(response.status(), 415);
}

#[tokio::test]
async fn heartbeats_fill_the_silence_and_the_lifetime_ends_cleanly() {
    let options = Options {
        heartbeat: Duration::from_millis(50),
        stream_lifetime: Duration::from_millis(400),
        ..Options::default()
    };
    let bench = Bench::new(options).await;
    let agent = bench.control.add_bot(NewBot::named("a"));
    let mut reader = bench.watch_from(&agent, 1, 0).await;
    assert!(reader.frame().await["heartbeat"]["serverTimeMs"].is_string());
    loop {
        match reader.read().await {
            Read::Frame(0, frame) => assert!(frame.get("heartbeat").is_some(), "{frame}"),
            Read::Frame(flags, end) => break assert_eq!((flags, end), (2, json!({}))),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(reader.read().await, Read::Over);
}

#[tokio::test]
async fn streams_break_in_every_planned_way() {
    let bench = Bench::new(Options::default()).await;
    let agent = bench.control.add_bot(NewBot::named("a"));
    bench.control.say(&agent, "e1", "你好🦀").unwrap();
    let request = json!({"cursors": [{"agentId": agent, "generation": 0, "afterUpdatedSeq": "0"}]});
    let whole = |then| StreamPlan { after_frames: Some(1), then, ..StreamPlan::default() };

    for (end, seen) in
        [(StreamEnd::Bare, Read::Over), (StreamEnd::Reset, Read::Broken), (StreamEnd::Clean, Read::Frame(2, json!({})))]
    {
        bench.control.plan_stream(whole(end));
        let mut reader = bench.watch(&request).await;
        assert!(reader.frame().await.get("connected").is_some());
        assert_eq!(reader.read().await, seen);
    }
    bench.control.plan_stream(StreamPlan { after_bytes: Some(7), then: StreamEnd::Bare, ..StreamPlan::default() });
    let mut cut = bench.watch(&request).await;
    assert_eq!(cut.read().await, Read::Over);
    assert_eq!(cut.bytes.len(), 7);

    bench.control.plan_stream(StreamPlan { one_byte_chunks: true, replay_again: true, ..StreamPlan::default() });
    let mut slow = bench.watch(&request).await;
    for _ in 0..3 {
        slow.frame().await;
    }
    let (first, second) = (slow.frame().await, slow.frame().await);
    assert!(slow.chunks > 100, "one byte each");
    assert_eq!(body_of(&first["rows"]["entries"][0])["message"]["content"], "你好🦀");
    assert_eq!((&first["rows"]["replay"], second["rows"].get("replay")), (&json!(true), None));
    assert_eq!(first["rows"]["entries"], second["rows"]["entries"]);

    bench.control.expire_access_tokens(true);
    let Read::Frame(2, end) = slow.read().await else { panic!("an end frame expected") };
    assert_eq!(end["error"]["code"], "unauthenticated");
    drop(slow);
    let control = bench.control.clone();
    tokio::time::timeout(LIMIT, control.until(|control| control.open_streams() == 0)).await.unwrap();
}

#[tokio::test]
async fn big_bodies_are_left_out_of_the_stream_or_stored_apart() {
    let bench = Bench::new(Options { blob_above_bytes: 2000, ..Options::default() }).await;
    let agent = bench.control.add_bot(NewBot::named("a"));
    let mut reader =
        bench.watch(&json!({"cursors": [], "includeUnlistedAgents": true, "inlineBodyMaxBytes": 500})).await;
    for _ in 0..3 {
        reader.frame().await;
    }
    bench.control.say(&agent, "middle", &"m".repeat(1000)).unwrap();
    let frame = reader.frame().await;
    let entry = &frame["rows"]["entries"][0];
    assert_eq!((&entry["bodyOmitted"], entry.get("body")), (&json!(true), None));
    let listed =
        bench.call("ListGrokBotTranscriptEntries", json!({"agentId": agent, "limit": 1, "beforeSeq": "2"})).await;
    assert_eq!(body_of(&listed["entries"][0])["id"], "middle");

    bench.control.say(&agent, "big", &"b".repeat(3000)).unwrap();
    let frame = reader.frame().await;
    let hash = frame["rows"]["entries"][0]["blobHash"].as_str().unwrap().to_owned();
    let paths = json!({"relPaths": [format!("blobs/{hash}"), "blobs/missing"]});
    let signed = bench.call("PresignSandBoxStoreReads", paths).await;
    assert_eq!(signed["instructions"].as_array().unwrap().len(), 1, "missing objects are left out");
    let url = signed["instructions"][0]["url"].as_str().unwrap();
    let body = bench.http.get(url).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(Sha256::digest(&body).as_slice(), unhex(&hash));
    let leaked = bench.http.get(url).bearer_auth(&bench.token).send().await.unwrap();
    assert_eq!(leaked.status(), 400, "no credentials to the store");
}

#[tokio::test]
async fn a_widget_is_answered_in_place_and_then_closed() {
    let bench = Bench::new(Options::default()).await;
    let agent = bench.control.add_bot(NewBot::named("a"));
    let asked = bench.control.ask(&agent, "w1", "现在部署？", &[("部署", "yes"), ("等等", "")]).unwrap();
    let answer = json!({"agentId": agent, "entryId": "w1", "value": "yes"});
    assert_eq!(bench.call("RespondGrokBotWidget", answer.clone()).await, json!({"accepted": true}));
    let rows = bench.control.rows(&agent);
    assert_eq!((rows.len(), rows[0].seq, rows[0].updated_seq), (1, asked.seq, asked.updated_seq + 1));
    assert_eq!(bench.control.body(&agent, "w1").unwrap()["respondedValue"], "yes");
    let (status, body) = bench.post(&format!("{SERVICE}/RespondGrokBotWidget"), &answer).await;
    assert_eq!((status, &body["code"]), (400, &json!("failed_precondition")));
}

#[tokio::test]
async fn a_held_answer_tells_of_a_state_that_is_past() {
    let bench = Bench::new(Options::default()).await;
    let agent = bench.control.add_bot(NewBot::named("a"));
    bench.control.say(&agent, "e1", "old").unwrap();
    let gate = bench.control.hold("ListGrokBotTranscriptEntries", Some(&agent), true);
    let listing = bench.call("ListGrokBotTranscriptEntries", json!({"agentId": agent}));
    let release = async {
        tokio::time::timeout(LIMIT, gate.arrived(1)).await.unwrap();
        bench.control.resay(&agent, "e1", "new").unwrap();
        gate.open();
    };
    let (page, ()) = tokio::join!(listing, release);
    assert_eq!(page["entries"][0]["updatedSeq"], "1");
}

#[tokio::test]
async fn another_process_steers_it_with_the_key_only() {
    let bench = Bench::new(Options::default()).await;
    let steer = |operation: &str, key: String, body: Value| {
        let request = bench.http.post(bench.url(&format!("control/{operation}"))).header("x-control-key", key);
        async move {
            let response = request.body(body.to_string()).send().await.unwrap();
            (response.status().as_u16(), serde_json::from_str::<Value>(&response.text().await.unwrap()).unwrap())
        }
    };
    let key = bench.simulation.control_key();
    assert_eq!(steer("add-bot", "guess".into(), json!({"name": "x"})).await.0, 403);
    assert!(bench.control.bots().is_empty());
    let (status, added) = steer("add-bot", key.clone(), json!({"name": "x", "extra": {"kind": 99}})).await;
    assert_eq!(status, 200, "{added}");
    let changes = json!([{"type": "add", "body": {"id": "e1", "message": {"type": "text", "content": "hi"}}}, {"type": "touch", "entryId": "e1"}]);
    let (_, stored) = steer("apply", key.clone(), json!({"agent": added["agent"], "changes": changes})).await;
    assert_eq!(stored["stored"][1], json!({"seq": 1, "updatedSeq": 2, "entryId": "e1"}));
    let fault =
        json!({"method": "ListGrokBotAgents", "act": {"type": "error", "code": "unavailable", "retryAfter": "3"}});
    assert_eq!(steer("fault", key.clone(), fault).await.0, 200);
    let (status, body) = bench.post(&format!("{SERVICE}/ListGrokBotAgents"), &json!({})).await;
    assert_eq!((status, &body["code"]), (503, &json!("unavailable")));
    assert_eq!(bench.call("ListGrokBotAgents", json!({})).await["agents"][0]["kind"], 99);
    let plan = json!({"times": null, "afterFrames": 1, "then": {"type": "clean"}});
    assert_eq!(steer("plan-stream", key.clone(), plan).await.0, 200);
    assert_eq!(steer("no-such", key.clone(), json!({})).await.0, 400);
    let (_, counts) = steer("counts", key, json!({})).await;
    assert_eq!(counts["counts"]["ListGrokBotAgents"], 2);
}

#[tokio::test]
async fn stopping_ends_streams_and_listener() {
    let bench = Bench::new(Options::default()).await;
    let agent = bench.control.add_bot(NewBot::named("a"));
    let mut reader = bench.watch_from(&agent, 1, 0).await;
    let address = format!("127.0.0.1:{}", bench.simulation.port());
    bench.simulation.stop().await;
    assert_eq!(reader.read().await, Read::Broken);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn it_can_write_as_the_other_implementation_was_recorded_to() {
    let bench = Bench::new(Options::default()).await;
    let agent = bench.control.add_bot(NewBot { harness: "box".into(), ..NewBot::named("Bridge Bot") });
    bench.control.quirks(|quirks| *quirks = Quirks::other_implementation());
    let bot = bench.call("ListGrokBotAgents", json!({})).await["agents"][0].clone();
    assert!(bot["createdAtMs"].is_number());
    assert_eq!(
        (&bot["kind"], &bot["viewerSessionId"], &bot["memberAgentIds"]),
        (&json!("AGENT"), &json!(""), &json!([]))
    );
    assert_eq!(
        bench.call("ListGrokBotTranscriptEntries", json!({"agentId": agent})).await,
        json!({"entries": [], "generation": 1})
    );
    for _ in 0..2 {
        let sent =
            bench.call("SendGrokBotUserMessage", json!({"agentId": agent, "messageId": "m-1", "text": "hello"})).await;
        assert_eq!((&sent["dispatched"], &sent["delivery"]), (&json!(true), &json!("ACCEPTED_BOX")));
    }
    let list =
        bench.call("ListGrokBotTranscriptEntries", json!({"agentId": agent, "limit": 1, "beforeSeq": "1"})).await;
    let seqs: Vec<u64> =
        list["entries"].as_array().unwrap().iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, [1, 2], "numbers, oldest first, bounds ignored, a second echo");
    assert_eq!(list["entries"][0]["bodyOmitted"], false);
}

#[tokio::test]
async fn another_account_sees_its_own_bots_only() {
    let bench = Bench::new(Options::default()).await;
    let first = bench.control.add_bot(NewBot::named("mine"));
    bench.control.sign_in_as(Account { auth_id: "auth0|user_OTHER".into(), user_id: 0, ..Account::default() });
    bench.control.add_bot(NewBot::named("theirs"));
    let other = Bench { token: bench.control.issue_tokens().access, ..bench };
    let agents = other.call("ListGrokBotAgents", json!({})).await;
    assert_eq!((agents["agents"].as_array().unwrap().len(), &agents["agents"][0]["name"]), (1, &json!("theirs")));
    let (status, _) = other.post(&format!("{SERVICE}/ListGrokBotTranscriptEntries"), &json!({"agentId": first})).await;
    assert_eq!(status, 404);
    let (_, me) = other.post("aiserver.v1.DashboardService/GetMe", &json!({})).await;
    assert_eq!((&me["authId"], me.get("userId")), (&json!("auth0|user_OTHER"), None));
}

#[tokio::test]
async fn numbers_above_two_to_the_53rd_travel_whole() {
    let bench = Bench::new(Options::default()).await;
    let agent = bench.control.add_bot(NewBot::named("a"));
    bench.control.set_numbers(&agent, u64::MAX - 2, 9_007_199_254_740_992);
    for id in ["a", "b"] {
        bench.control.say(&agent, id, "x").unwrap();
    }
    let list = bench.call("ListGrokBotTranscriptEntries", json!({"agentId": agent})).await;
    assert_eq!(seqs(&list), ["18446744073709551615", "18446744073709551614"]);
    assert_eq!(list["entries"][1]["updatedSeq"], "9007199254740993");
    assert!(bench.control.say(&agent, "c", "x").is_err(), "the numbers are used up");
}

#[tokio::test]
async fn all_eleven_kinds_of_frames_can_be_told() {
    let bench = Bench::new(Options { heartbeat: Duration::from_millis(30), ..Options::default() }).await;
    let agent = bench.control.add_bot(NewBot::named("a"));
    bench.control.say(&agent, "e1", "x").unwrap();
    bench.control.forget_changes(&agent);
    let mut reader = bench.watch_from(&agent, 1, 0).await;
    let mut seen = std::collections::BTreeSet::from(["connected".to_owned(), "agentState".into(), "boxState".into()]);
    bench.control.say(&agent, "e2", "x").unwrap();
    bench.control.clear(&agent);
    bench.control.rename_bot(&agent, "b");
    bench.control.turn_failed(&agent, "USAGE_LIMIT", "Usage limit reached");
    bench.control.agent_state_changed(&agent, &["automations"]);
    bench.control.computer_action(&agent);
    bench.control.inject_frame(&json!({"holograms": {"agentId": agent}}));
    while seen.len() < 12 {
        seen.extend(reader.frame().await.as_object().unwrap().keys().cloned());
    }
    let kinds = "agentState agentStateChanged boxState cleared computerActions connected cursorTooOld heartbeat holograms \
                 rosterChanged rows turnFailed";
    assert_eq!(seen.into_iter().collect::<Vec<_>>().join(" "), kinds);
}
