//! The sign-in through the resource page, its renewal, its end, another account.

use std::time::Duration;

use coda_grok_bot::simulate::{Account, NewBot, Options, TokenPolicy};
use serde_json::json;

use crate::support::{Bench, digest, kind, mode};

fn other() -> Account {
    Account {
        auth_id: "auth0|user_SIMULATED0002".into(),
        user_id: 2002,
        first_name: "Other".into(),
        ..Account::default()
    }
}

#[tokio::test]
async fn h7_h8_the_link_its_confirmation_and_its_cancellation() {
    let bench = Bench::new(Options::default()).await;
    bench.bot("a");
    let mut host = bench.serve().await;
    let link = host.call("resource/signIn", json!({})).await.unwrap();
    assert_eq!(host.call("resource/signIn", json!({})).await.unwrap(), link, "the same link while it is pending");
    let url = link["url"].as_str().unwrap().to_owned();
    for part in [
        "/loginDeepControl?",
        "mode=login",
        "redirectTarget=sand",
        "supportsSelectedTeamLogin=true",
        "challenge=",
        "uuid=",
    ] {
        assert!(url.contains(part), "{url}");
    }
    host.until("confirming", |host| host.status["state"] == "confirming").await;
    assert_eq!((&host.status["url"], &host.status["expiresAt"]), (&link["url"], &link["expiresAt"]));
    assert!(host.status["message"].as_str().unwrap().contains("Continue"));
    host.call("resource/cancelSignIn", json!({})).await.unwrap();
    host.until("signed out", |host| host.status["state"] == "signedOut").await;
    // A link that was cancelled signs nobody in.
    bench.control.confirm(&url).unwrap();
    let second = host.call("resource/signIn", json!({})).await.unwrap()["url"].as_str().unwrap().to_owned();
    assert_ne!(second, url);
    assert!(!bench.auth_file().exists());
    bench.control.confirm(&second).unwrap();
    host.ready(&bench.record("a")).await;
    host.until("signed in", |host| host.status["state"] == "signedIn").await;
    assert_eq!(host.status["account"], json!({"id": digest("1001"), "name": "Sample Person"}));
    assert_eq!((mode(&bench.auth_file()), mode(&bench.data())), (0o600, 0o700));
    for entry in std::fs::read_dir(bench.data()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    let host = host.quit().await;
    assert!(!host.stderr().contains("verifier="));
}

#[tokio::test]
async fn h8_a_service_without_the_post_is_polled_by_get_and_the_verifier_stays_unlogged() {
    let bench = Bench::new(Options { auto_confirm: Some(2), ..Options::default() }).await;
    bench.bot("a");
    bench.control.quirks(|quirks| quirks.poll_only_get = true);
    let mut host = crate::support::Host::spawn(bench.command(&["serve", "--log", "trace"]), bench.heard());
    host.initialize().await;
    host.call("resource/signIn", json!({})).await.unwrap();
    host.ready(&bench.record("a")).await;
    let verbs: Vec<String> = bench.control.requests("auth/poll").into_iter().map(|request| request.verb).collect();
    assert!(verbs[0] == "POST" && verbs[1..].iter().all(|verb| verb == "GET") && verbs.len() > 1, "{verbs:?}");
    let host = host.quit().await;
    assert!(!host.stderr().contains("verifier="), "{}", host.stderr());
}

#[tokio::test]
async fn h8_a_sign_in_that_ended_leaves_the_records_readable() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    bench.control.say("a", "e1", "一").unwrap();
    bench.control.set_live("a", "", Some(coda_grok_bot::simulate::Live::thinking("想")));
    let mut host = bench.serve_ready().await;
    host.until("an activity", |host| host.activity(&record).is_some()).await;
    bench.control.revoke_tokens();
    bench.control.expire_access_tokens(true);
    host.until("sign in again", |host| host.status["state"] == "signInAgain").await;
    assert!(host.status["message"].as_str().unwrap().contains("重新登录"));
    host.until("no activity", |host| host.activity(&record).is_none()).await;
    host.reads_texts(&record, &["一"]).await;
    assert_eq!(host.post(&record, "r1", "二").await["reason"], "signed_out");
    let bind = host.call("view/open", json!({"view": "bind", "args": [record]})).await;
    assert_eq!(kind(&bind), "signed_out");
    assert!(bench.control.received_messages().is_empty());
    // Signed in again, all goes on.
    let link = host.call("resource/signIn", json!({})).await.unwrap();
    bench.control.confirm(link["url"].as_str().unwrap()).unwrap();
    host.until("signed in", |host| host.status["state"] == "signedIn").await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    bench.control.say("a", "e2", "二").unwrap();
    host.reads_texts(&record, &["一", "二"]).await;
    assert!(host.withdrawn.is_empty());
    host.quit().await;
}

#[tokio::test]
async fn a_token_that_expires_in_mid_stream_is_renewed_once() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    let mut host = bench.serve_ready().await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    bench.control.expire_access_tokens(true);
    bench.until("a new stream", |control| control.opened_streams() >= 2 && control.open_streams() == 1).await;
    bench.control.say("a", "e1", "一").unwrap();
    host.reads_texts(&record, &["一"]).await;
    assert_eq!(bench.control.count("oauth/token"), 1);
    host.quit().await;
}

#[tokio::test]
async fn h9_another_account_takes_the_records_of_the_old_one_away() {
    let bench = Bench::with_bot().await;
    let record = bench.record("a");
    bench.control.say("a", "e1", "一").unwrap();
    let mut host = bench.serve_ready().await;
    host.reads_texts(&record, &["一"]).await;
    bench.control.add_bot(NewBot { owner: Some(other().auth_id), ..NewBot::named("别人的").id("z") });
    bench.control.sign_in_as(other());
    bench.control.say("z", "e1", "别人的话").unwrap();
    let link = host.call("resource/signIn", json!({})).await.unwrap();
    // The old account stays until the new one is there.
    host.until("confirming", |host| host.status["state"] == "confirming").await;
    assert_eq!(host.status["account"]["id"], digest("1001"));
    host.reads_texts(&record, &["一"]).await;
    bench.control.confirm(link["url"].as_str().unwrap()).unwrap();
    let theirs = format!("grok-bot:{}:z", digest("2002"));
    host.reads_texts(&theirs, &["别人的话"]).await;
    assert_eq!(host.withdrawn, [(record.clone(), "account".to_owned())]);
    assert_eq!(kind(&host.read(&record, json!({})).await), "record_not_found");
    host.until("the new page", |host| host.status["items"].as_array().is_some_and(|items| items.len() == 1)).await;
    assert_eq!(host.status["account"], json!({"id": digest("2002"), "name": "Other Person"}));
    // And back: the same ids, from the same index.
    bench.control.sign_in_as(Account::default());
    let link = host.call("resource/signIn", json!({})).await.unwrap();
    bench.control.confirm(link["url"].as_str().unwrap()).unwrap();
    let messages = host.reads_texts(&record, &["一"]).await;
    assert_eq!((&messages[0]["id"], &messages[0]["cursor"]), (&json!("1:e1"), &json!("1:1")));
    host.quit().await;
}

#[tokio::test]
async fn a10_two_processes_renew_one_token_once() {
    let life = Duration::from_hours(60 * 24);
    let tokens = TokenPolicy {
        access_life: Duration::ZERO,
        refresh_life: life,
        rotate: true,
        revoke_on_reuse: true,
        access_renews: false,
    };
    let bench = Bench::new(Options { tokens, ..Options::default() }).await;
    bench.bot("a");
    bench.sign_in();
    bench.control.token_policy(|policy| policy.access_life = life);
    // The first one that asks is held at the service until the others had time to come as well.
    let gate = bench.control.hold("oauth/token", None, true);
    let mut host = bench.serve().await;
    gate.arrived(1).await;
    let (first, second, ()) = tokio::join!(bench.run(&["status", "--json"]), bench.run(&["bots", "--json"]), async {
        // Not for safety: it only makes it likely that they meet; the count below holds either way.
        tokio::time::sleep(Duration::from_millis(700)).await;
        gate.open();
    });
    assert_eq!((first.code, second.code), (Some(0), Some(0)), "{}{}", first.stderr, second.stderr);
    assert_eq!(first.json()[0]["state"], "signedIn");
    host.ready(&bench.record("a")).await;
    assert_eq!(bench.control.count("oauth/token"), 1);
    host.quit().await;
}
