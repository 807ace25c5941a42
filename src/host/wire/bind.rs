//! `view/open` and `protocols/remoteCode`: the bind view.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The params of `view/open`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub struct ViewOpenParams {
    /// `bind`, the one view.
    pub view: String,
    /// The record's id.
    #[schemars(length(equal = 1))]
    pub args: Vec<String>,
}

/// The result of `view/open`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ViewOpenResult {
    /// `sent`.
    pub status: &'static str,
    /// What the page shows.
    pub text: &'static str,
}

/// The params of `protocols/remoteCode`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RemoteCodeParams {
    /// Which record the code is for.
    pub record: String,
}

/// The result of `protocols/remoteCode`. `expiresAt` comes too; nobody here needs it.
#[derive(Clone, Deserialize, JsonSchema)]
pub struct RemoteCodeResult {
    /// The code; a secret for as long as it lives.
    pub code: String,
    /// The entries of the host in the tailnet.
    pub addresses: Vec<String>,
}

impl fmt::Debug for RemoteCodeResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteCodeResult").finish_non_exhaustive()
    }
}
