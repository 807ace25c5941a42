//! A sign-in for a provider under measurement.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A data folder with a sign-in that never ends.
pub(crate) fn sign_in(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let now = UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    let claims = json!({"sub": "auth0|user_BENCH", "time": now.to_string(), "exp": now + 5_000_000, "type": "session"});
    let token = format!("{}.{}.c2ln", part(&json!({"alg": "HS256", "typ": "JWT"})), part(&claims));
    let document = json!({"accessToken": token, "refreshToken": token, "authId": "auth0|user_BENCH", "userId": 1234});
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(folder.join("native-auth.json"))?.write_all(document.to_string().as_bytes())
}
