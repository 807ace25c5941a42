//! An independent client of the Bots' computers, made by others, on the simulated service.

use coda_grok_bot::simulate::{NewBot, Options, Simulation};
use grokbot_api::{AcceptanceStatus, Client, ClientOptions, Delivery, Policy, SendPrompt};

fn options(simulation: &Simulation) -> ClientOptions {
    ClientOptions { policy: Policy::local_testing(), backend_base: simulation.base_url(), ..ClientOptions::default() }
}

#[tokio::test]
async fn it_lists_bots_reads_entries_and_sends_a_message() {
    let simulation = Simulation::start(Options::default()).await.unwrap();
    let control = simulation.control();
    let agent = control.add_bot(NewBot::named("小艾"));
    for number in 0..5 {
        control.say(&agent, &format!("e{number}"), &format!("第 {number} 句")).unwrap();
    }
    let token = control.issue_tokens().access;
    let client = Client::connect_cursor(&token, options(&simulation)).await.unwrap();

    let bots = client.list_agents().await.unwrap();
    assert_eq!((bots.len(), bots[0].display_name(), &bots[0].id), (1, "小艾", &agent));
    let team = client.list_team_agents().await.unwrap().unwrap();
    assert_eq!((team.len(), &team[0].agent_id, team[0].viewer_is_owner), (1, &agent, true));

    let whole = client.transcript_history(&agent, 2, 100).await.unwrap();
    let texts: Vec<&str> = whole.entries.iter().map(|entry| entry.text.as_str()).collect();
    assert_eq!(texts, ["第 0 句", "第 1 句", "第 2 句", "第 3 句", "第 4 句"]);

    let mut prompt = SendPrompt::new(&agent, "你好");
    prompt.client_nonce = Some("nonce-1".into());
    for _ in 0..2 {
        assert_eq!(client.send_prompt(&prompt).await.unwrap().delivery, Delivery::Accepted);
    }
    assert_eq!(client.prompt_acceptance_status(&agent, "nonce-1").await.unwrap(), AcceptanceStatus::Accepted);
    assert_eq!(client.prompt_acceptance_status(&agent, "nonce-2").await.unwrap(), AcceptanceStatus::NotFound);
    let tail = client.transcript_tail(&agent, 2, None).await.unwrap();
    let last = tail.entries.last().unwrap();
    assert!(last.is_from_user());
    assert_eq!((tail.entries.len(), last.text.as_str()), (2, "你好"));
    assert_eq!(control.received_messages().len(), 1, "the same nonce is the same message");
}

#[tokio::test]
async fn it_exchanges_its_session_anew_when_that_ended() {
    let simulation = Simulation::start(Options::default()).await.unwrap();
    let control = simulation.control();
    control.add_bot(NewBot::named("a"));
    let client = Client::connect_cursor(&control.issue_tokens().access, options(&simulation)).await.unwrap();
    control.expire_access_tokens(false);
    // The account's token is gone as well: nothing can be exchanged.
    assert!(client.list_agents().await.is_err());
    let fresh = control.issue_tokens().access;
    let client = Client::with_cursor_token(client.session(), fresh, options(&simulation)).unwrap();
    assert_eq!(client.list_agents().await.unwrap().len(), 1);
    assert!(client.take_refreshed_session().is_some());
}
