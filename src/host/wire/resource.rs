//! `resource/…`: the sign-in and its page.

use schemars::JsonSchema;
use serde::Serialize;

use super::Time;

/// The resource page: result of `resource/status`, params of `resource/changed`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct Status {
    /// Where the sign-in stands.
    pub state: StatusState,
    /// Who is signed in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Named")]
    pub account: Option<Named>,
    /// The link, while confirming.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub url: Option<String>,
    /// The link's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub expires_at: Option<Time>,
    /// One sentence for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
    /// One a Bot.
    pub items: Vec<Item>,
}

/// The states of the sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StatusState {
    /// Nobody.
    SignedOut,
    /// A link waits for its confirmation.
    Confirming,
    /// Somebody.
    SignedIn,
    /// Renewal failed for good.
    SignInAgain,
}

/// Something with an id and a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Named {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// A Bot on the resource page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Item {
    /// Its record.
    pub record: String,
    /// Its name.
    pub title: String,
    /// 「绑定」.
    pub button: Button,
}

/// A button that opens a view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Button {
    /// What it says.
    pub text: &'static str,
    /// The view.
    pub view: &'static str,
    /// The record's id.
    pub args: [String; 1],
}

/// The result of `resource/signIn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(deny_unknown_fields)]
pub struct SignInResult {
    /// The link.
    pub url: String,
    /// Its end.
    pub expires_at: Time,
}
