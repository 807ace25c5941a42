//! Bots that do something by themselves.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::options::Behaviour;
use super::server::Shared;

/// What stirs a Bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stimulus {
    /// A message of the account's person.
    Message {
        agent: String,
        text: String,
        request: String,
    },
    /// A widget was answered.
    Answered {
        agent: String,
        entry_id: String,
        value: String,
    },
}

/// Lets the Bots live until it is dropped.
pub(super) async fn run(_shared: Arc<Shared>, _behaviour: Behaviour, mut stimuli: mpsc::UnboundedReceiver<Stimulus>) {
    while stimuli.recv().await.is_some() {}
}
