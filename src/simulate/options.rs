//! What can be chosen before a simulation starts, and the deviations that can be chosen while it runs.

use std::time::Duration;

use serde::Deserialize;

/// How a simulation starts. Every period is here, so that a test is quick without a fake clock.
#[derive(Clone, Debug)]
pub struct Options {
    /// The port on 127.0.0.1; 0 takes any free one.
    pub port: u16,
    /// The account that signs in.
    pub account: Account,
    /// Time without a frame after which a stream gets a heartbeat. 10 s upstream (wire reference, section 5.3).
    pub heartbeat: Duration,
    /// After how long a stream is closed cleanly: `connected.absoluteLifetimeMs`. The real value is unknown.
    pub stream_lifetime: Duration,
    /// The `agentState` snapshot comes before the replay (else after it). Upstream's order isn't known.
    pub snapshot_first: bool,
    /// How many changes of a transcript are kept for replay: an older cursor is too old.
    pub kept_changes: u64,
    /// A body longer than this is stored apart and only its hash is shipped (wire reference, section 8). The real cap is unknown.
    pub blob_above_bytes: usize,
    /// Tokens.
    pub tokens: TokenPolicy,
    /// Confirms a sign-in by itself at the n-th poll: nobody has to open the page. `None` waits for the page or the control.
    pub auto_confirm: Option<u32>,
    /// Added to the machine's clock wherever the service tells or judges time, in milliseconds: a client whose clock is wrong.
    pub clock_offset_ms: i64,
    /// What the Bots do by themselves. `None`: nothing; a sent message is echoed and that is all.
    pub behaviour: Option<Behaviour>,
    /// Starts with the three Bots of the demonstration and their history.
    pub demo_bots: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: 0,
            account: Account::default(),
            heartbeat: Duration::from_secs(10),
            stream_lifetime: Duration::from_mins(20),
            snapshot_first: true,
            kept_changes: 10_000,
            blob_above_bytes: 512 * 1024,
            tokens: TokenPolicy::default(),
            auto_confirm: None,
            clock_offset_ms: 0,
            behaviour: None,
            demo_bots: false,
        }
    }
}

impl Options {
    /// Three Bots with a history that live and react; a sign-in confirms itself at the second poll.
    #[must_use]
    pub fn demo() -> Self {
        Self { auto_confirm: Some(2), behaviour: Some(Behaviour::default()), demo_bots: true, ..Self::default() }
    }
}

/// Whose service it is: what `GetMe` says.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Account {
    /// `authId`, and `sub` of the tokens. The key of the account here.
    pub auth_id: String,
    /// `userId`; 0 is left out of the answer.
    pub user_id: i32,
    /// E-mail; empty is left out.
    pub email: String,
    /// First name; empty is left out.
    pub first_name: String,
    /// Last name; empty is left out.
    pub last_name: String,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            auth_id: "auth0|user_SIMULATED0001".into(),
            user_id: 1001,
            email: "sample@example.test".into(),
            first_name: "Sample".into(),
            last_name: "Person".into(),
        }
    }
}

/// How tokens are issued and judged (sign-in reference, section 3).
#[derive(Clone, Debug)]
pub struct TokenPolicy {
    /// Life of an access token. About 60 days upstream.
    pub access_life: Duration,
    /// Life of a refresh token.
    pub refresh_life: Duration,
    /// A renewal brings a new refresh token. Upstream normally brings none.
    pub rotate: bool,
    /// A refresh token that comes a second time kills its whole family.
    pub revoke_on_reuse: bool,
    /// An access token is taken as a refresh token too (inferred of upstream).
    pub access_renews: bool,
}

impl Default for TokenPolicy {
    fn default() -> Self {
        let life = Duration::from_hours(60 * 24);
        Self { access_life: life, refresh_life: life, rotate: false, revoke_on_reuse: false, access_renews: true }
    }
}

/// What the Bots do by themselves.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// The length of one beat: between two states of a turn, between two versions of a streamed row.
    pub beat: Duration,
    /// Time between two scenes that start by themselves (routine, rename, create, …). `None`: the Bots only react.
    pub scenes: Option<Duration>,
    /// Decides every choice.
    pub seed: u64,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { beat: Duration::from_millis(600), scenes: Some(Duration::from_secs(12)), seed: 1 }
    }
}

/// How messages are written (wire reference, section 2). The default is upstream's way.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Dialect {
    /// 64-bit integers are JSON numbers instead of decimal strings.
    pub long_numbers: bool,
    /// `false`, 0, `""` and empty lists are written instead of left out.
    pub defaults: bool,
    /// Enums come without their prefix.
    pub short_enums: bool,
}

/// In which order a list answer comes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum ListOrder {
    /// As upstream.
    #[default]
    NewestFirst,
    /// As another implementation does.
    OldestFirst,
    /// By chance, from the simulation's fixed seed.
    Shuffled,
}

/// What is done with the row that echoes a sent message.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Echo {
    /// It is there before the send is answered.
    #[default]
    AtOnce,
    /// It waits for `release_echoes`.
    Held,
    /// It never comes.
    Never,
}

/// Deviations from upstream that can be switched while the simulation runs. The default has none.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Quirks {
    /// How messages are written.
    pub dialect: Dialect,
    /// Order of list answers.
    pub list_order: ListOrder,
    /// A list answer ignores `limit`.
    pub ignore_limit: bool,
    /// A list answer ignores `beforeSeq`.
    pub ignore_before_seq: bool,
    /// A list answer holds no more rows than this, whatever was asked for; 0 is no cap of its own.
    pub list_cap: u32,
    /// A list answer and a `rows` frame have no generation.
    pub no_generation: bool,
    /// What becomes of echoes.
    pub echo: Echo,
    /// The echo's text is rewritten: comments are cut out, several blank lines become one (field reports).
    pub rewrite_echo: bool,
    /// The echo is a `send-message` row, as some notes have it.
    pub echo_as_send_message: bool,
    /// A re-sent message is accepted again and makes a second echo.
    pub forgetful_sends: bool,
    /// `POST /auth/poll` is an unknown route.
    pub poll_only_get: bool,
    /// Stored bodies are both hashed and marked `bodyOmitted`.
    pub omitted_with_hash: bool,
}

impl Quirks {
    /// The deviations of another implementation, as recorded from it: numbers for strings, defaults written, enum names without prefix,
    /// lists that are oldest first and ignore their bounds, a re-sent message that is taken as a new one.
    #[must_use]
    pub fn other_implementation() -> Self {
        Self {
            dialect: Dialect { long_numbers: true, defaults: true, short_enums: true },
            list_order: ListOrder::OldestFirst,
            ignore_limit: true,
            ignore_before_seq: true,
            forgetful_sends: true,
            ..Self::default()
        }
    }
}
