//! The account and its Bots.

use super::AgentId;

/// Who is signed in, as far as records need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Lower-case hex SHA-256 of `GetMe.userId` (decimal text), or of `authId` where there is no `userId`.
    pub digest: String,
    /// First and last name, else e-mail, else 「Grok 账号」.
    pub name: String,
}

/// One listed agent of kind AGENT of the account's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bot {
    /// What every other call names it by.
    pub agent_id: AgentId,
    /// Its name; empty where it has none.
    pub name: String,
    /// Where it runs.
    pub harness: Harness,
}

/// Where a Bot runs. It decides whether assistant rows are messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harness {
    /// `box`: assistant rows are the Bot talking to itself.
    Box,
    /// `temporal`, absent, or a newer one.
    Other,
}
