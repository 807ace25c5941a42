//! The floor: what no client of this kind can do without, and nothing else. The same bytes over HTTP/1.1, envelopes split, base64 decoded, each
//! body parsed by serde into the smallest typed struct, then dropped. It keeps nothing, orders nothing and shows nothing.

use std::error::Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

const SERVICE: &str = "aiserver.v1.GrokBotService";

#[derive(Deserialize)]
struct Agents {
    agents: Vec<Agent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    agent_id: String,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Frame {
    rows: Option<Page>,
}

#[derive(Deserialize)]
struct Entry {
    seq: String,
    body: String,
}

/// The smallest struct that holds what a mirror needs of a body. The fields are read by nobody: that they were made is the point.
#[derive(Deserialize, Debug)]
#[expect(dead_code, reason = "parsed and dropped: that is what is measured")]
struct Body {
    id: String,
    kind: String,
    content: Option<String>,
    message: Option<Message>,
}

#[derive(Deserialize, Debug)]
#[expect(dead_code, reason = "parsed and dropped: that is what is measured")]
struct Message {
    content: Option<String>,
}

/// Reads everything from `base`: the lists to their ends, or, with `rows`, so many rows of the stream. Gives the rows read.
pub(crate) fn run(base: &str, rows: Option<usize>) -> Result<usize, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // As the program builds its client for loopback: no certificates are read.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).http1_only().build()?;
    runtime.block_on(async {
        match rows {
            None => list(&client, base).await,
            Some(rows) => watch(&client, base, rows).await,
        }
    })
}

async fn list(client: &reqwest::Client, base: &str) -> Result<usize, Box<dyn Error>> {
    let agents: Agents =
        serde_json::from_slice(&unary(client, base, "ListGrokBotAgents", json!({})).await?.bytes().await?)?;
    let mut count = 0;
    for agent in agents.agents {
        let mut before: Option<String> = None;
        loop {
            let mut request = json!({"agentId": agent.agent_id, "limit": 500});
            if let Some(before) = &before {
                request["beforeSeq"] = before.as_str().into();
            }
            let answer = unary(client, base, "ListGrokBotTranscriptEntries", request).await?;
            let page: Page = serde_json::from_slice(&answer.bytes().await?)?;
            before = page.entries.last().map(|entry| entry.seq.clone());
            let read = page.entries.len();
            parse(&page)?;
            count += read;
            if read < 500 {
                break;
            }
        }
    }
    Ok(count)
}

async fn unary(
    client: &reqwest::Client,
    base: &str,
    method: &str,
    request: Value,
) -> reqwest::Result<reqwest::Response> {
    let request = client
        .post(format!("{base}/{SERVICE}/{method}"))
        .header("content-type", "application/json")
        .body(request.to_string());
    request.send().await?.error_for_status()
}

async fn watch(client: &reqwest::Client, base: &str, rows: usize) -> Result<usize, Box<dyn Error>> {
    let request = br#"{"cursors":[],"includeUnlistedAgents":true,"inlineBodyMaxBytes":262144}"#;
    let mut body = vec![0];
    body.extend_from_slice(&u32::try_from(request.len())?.to_be_bytes());
    body.extend_from_slice(request);
    let request = client
        .post(format!("{base}/{SERVICE}/WatchGrokBotTranscripts"))
        .header("content-type", "application/connect+json")
        .body(body);
    let mut response = request.send().await?.error_for_status()?;
    let (mut buffer, mut count) = (Vec::new(), 0);
    while let Some(chunk) = response.chunk().await? {
        buffer.extend_from_slice(&chunk);
        let mut at = 0;
        while let Some(head) = buffer.get(at..at + 5) {
            let length = usize::try_from(u32::from_be_bytes([head[1], head[2], head[3], head[4]]))?;
            let Some(payload) = buffer.get(at + 5..at + 5 + length) else { break };
            let frame: Frame = serde_json::from_slice(payload)?;
            if let Some(page) = &frame.rows {
                parse(page)?;
                count += page.entries.len();
            }
            at += 5 + length;
        }
        buffer.drain(..at);
        if count >= rows {
            return Ok(count);
        }
    }
    Err("the stream ended too soon".into())
}

fn parse(page: &Page) -> Result<(), Box<dyn Error>> {
    for entry in &page.entries {
        let body: Body = serde_json::from_slice(&STANDARD.decode(&entry.body)?)?;
        drop(std::hint::black_box(body));
    }
    Ok(())
}
