//! The ids that a host sees. Nothing of the machine, the folder or chance is in them: the same account and Bot give the same ids everywhere.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::model::{Account, AgentId, RecordId};

/// What JavaScript's `encodeURIComponent` escapes: all but `A-Z a-z 0-9 - _ . ! ~ * ' ( )`.
const COMPONENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// The record of a Bot: `grok-bot:<digest>:<agentId, encoded>`.
#[must_use]
pub fn record_id(account: &Account, agent: &AgentId) -> RecordId {
    RecordId::from(format!("grok-bot:{}:{}", account.digest, encode(agent)))
}

/// The container of an account's records: `grok-bot:<digest>`.
#[must_use]
pub fn container_id(account: &Account) -> String {
    format!("grok-bot:{}", account.digest)
}

/// The account itself as a participant: `account:<digest>`.
#[must_use]
pub fn self_id(account: &Account) -> String {
    format!("account:{}", account.digest)
}

/// A Bot as a participant: `agent:<agentId, encoded>`.
#[must_use]
pub fn bot_id(agent: &AgentId) -> String {
    format!("agent:{}", encode(agent))
}

fn encode(agent: &AgentId) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(agent.as_str(), COMPONENT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h11_agent_ids_are_encoded_as_encode_uri_component_does() {
        let account = Account { digest: "ab12".into(), name: "N".into() };
        // Right-hand sides as Node 20 writes them.
        for (agent, encoded) in [
            ("plain-1_2.3", "plain-1_2.3"),
            ("!~*'()", "!~*'()"),
            ("a/b:c d", "a%2Fb%3Ac%20d"),
            ("+&=?#%@,;$[]", "%2B%26%3D%3F%23%25%40%2C%3B%24%5B%5D"),
            ("小白🦀", "%E5%B0%8F%E7%99%BD%F0%9F%A6%80"),
            ("\"<>\\^`{|}\u{7f}\n", "%22%3C%3E%5C%5E%60%7B%7C%7D%7F%0A"),
        ] {
            let agent = AgentId::from(agent);
            assert_eq!(record_id(&account, &agent).as_str(), format!("grok-bot:ab12:{encoded}"));
            assert_eq!(bot_id(&agent), format!("agent:{encoded}"));
        }
        assert_eq!(container_id(&account), "grok-bot:ab12");
        assert_eq!(self_id(&account), "account:ab12");
    }

    #[test]
    fn h11_every_ascii_character_is_escaped_exactly_when_javascript_does() {
        let unreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.!~*'()";
        for byte in 0u8..128 {
            let character = char::from(byte);
            let encoded = bot_id(&AgentId::from(character.to_string()));
            let expected = if unreserved.contains(character) {
                format!("agent:{character}")
            } else {
                format!("agent:%{byte:02X}")
            };
            assert_eq!(encoded, expected);
        }
    }
}
