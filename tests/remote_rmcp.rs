//! The remote client's MCP server (`remote/coda-bot.mjs`), spoken to by the official
//! Rust SDK with every protocol version that it knows, in both eras.
//!
//! The other clients are tried in `tests/remote/`; this one is Rust, so it is tried here.

use std::{io, path::Path, process::Stdio};

use axum::{Router, routing::post};
use rmcp::{
    ClientLifecycleMode, ClientServiceExt, RoleClient, ServiceError,
    model::{CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProtocolVersion},
    service::RunningService,
    transport::TokioChildProcess,
};
use serde_json::json;
use tokio::{net::TcpListener, process::Command, task::JoinSet};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/remote/coda-bot.mjs");

/// A stand-in of Coda's remote entry that binds whoever asks and echoes each call.
async fn coda(tasks: &mut JoinSet<io::Result<()>>) -> io::Result<String> {
    let bind = || async { json!({"token": "a-token-for-this-test", "record": "grok-bot:0:bot"}).to_string() };
    let call = |body: String| async move { format!(r#"{{"result":{body}}}"#) };
    let app = Router::new().route("/v1/remote-caller/bind", post(bind)).route("/v1/remote-caller", post(call));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = format!("http://{}", listener.local_addr()?);
    tasks.spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.arg(CLIENT).args(arguments).env("CODA_BOT_HOME", home).kill_on_drop(true);
    command
}

type Session = RunningService<RoleClient, ClientConfig>;

async fn connect(home: &Path, version: ProtocolVersion, lifecycle: ClientLifecycleMode) -> Session {
    let mut config = ClientConfig::new(ClientCapabilities::default(), Implementation::new("test", "1"));
    config.protocol_version = version;
    let transport = TokioChildProcess::new(command(home, &["mcp"])).expect("node starts");
    config.serve_with_lifecycle(transport, lifecycle).await.expect("the eras meet")
}

fn agreed(session: &Session) -> Option<ProtocolVersion> {
    session.peer_info().map(|peer| peer.protocol_version.clone())
}

/// What must work whatever the version: the list, a read, a ticket, the two kinds of failure.
async fn use_all(session: &Session) {
    let tools = session.list_all_tools().await.expect("tools are listed");
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(
        names,
        [
            "coda_machines",
            "coda_machine_diagnostics",
            "coda_read_thread",
            "coda_read_tool_call",
            "coda_workflow_list",
            "coda_workflow_status",
            "coda_file_ticket",
        ]
    );

    let arguments = json!({"thread": "线程🦀", "limit": 3});
    let mut request = CallToolRequestParams::new("coda_read_thread");
    request.arguments = arguments.as_object().cloned();
    let result = session.call_tool(request).await.expect("a read is answered");
    let expected = json!({"method": "tool", "params": {"name": "coda_read_thread", "arguments": arguments}});
    assert_eq!(result.structured_content, Some(expected));

    let mut request = CallToolRequestParams::new("coda_file_ticket");
    request.arguments = json!({"key": "slow-start"}).as_object().cloned();
    let result = session.call_tool(request).await.expect("a ticket is answered");
    let sent = result.structured_content.expect("an object");
    assert_eq!(sent["method"], "file_ticket");
    assert_eq!(sent["params"]["workflow"], "bot-ticket");

    let result = session.call_tool(CallToolRequestParams::new("coda_file_ticket")).await;
    assert_eq!(result.expect("a refusal is a result").is_error, Some(true));
    let unknown = session.call_tool(CallToolRequestParams::new("nope")).await;
    assert!(matches!(unknown, Err(ServiceError::McpError(error)) if error.code.0 == -32602));
}

#[tokio::test]
async fn every_version_of_both_eras() {
    let mut tasks = JoinSet::new();
    let address = coda(&mut tasks).await.expect("a loopback port");
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("store");
    let status = command(&home, &["bind", &address, "code"]).stdout(Stdio::null()).status().await;
    assert!(status.expect("node runs").success());

    for version in ProtocolVersion::KNOWN_VERSIONS {
        let lifecycle = if version.has_initialize() {
            ClientLifecycleMode::Initialize
        } else {
            ClientLifecycleMode::Discover { preferred_versions: vec![version.clone()] }
        };
        let session = connect(&home, version.clone(), lifecycle).await;
        assert_eq!(agreed(&session).as_ref(), Some(version));
        use_all(&session).await;
        session.cancel().await.expect("the server ends");
    }

    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::V_2024_11_05),
    };
    let session = connect(&home, ProtocolVersion::LATEST, lifecycle).await;
    assert_eq!(agreed(&session), Some(ProtocolVersion::LATEST));
    use_all(&session).await;
    session.cancel().await.expect("the server ends");
}
