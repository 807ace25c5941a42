//! What an answer of the sign-in endpoints means: done, wait, try again, or over. Nothing of a body gets into a text, but for codes known here.

use std::time::Duration;

use oauth2::{AccessToken, RefreshToken};
use serde_json::Value;

use super::endpoint::{Answer, PollForm};
use super::wire::{ErrorAnswer, PollAnswer, TokenAnswer};

/// Longer tokens aren't believed; real ones have about 415 characters.
const TOKEN_LIMIT: usize = 16 * 1024;
/// The code for a policy of the organisation or the device.
const POLICY: &str = "sign_in_policy_violation";
/// Codes of a 400 that say that the refresh token itself is done for. Everything else under a 400 may be our mistake or a proxy's.
const SPENT: [&str; 4] =
    ["invalid_grant", "refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated"];

/// What a confirmed sign-in gives.
pub(super) struct Grant {
    pub(super) access: AccessToken,
    pub(super) refresh: RefreshToken,
    pub(super) auth_id: Option<String>,
}

/// What an answer to a poll means.
pub(super) enum Poll {
    /// Confirmed. Such an answer may come only once.
    Done(Grant),
    /// Not confirmed yet, or the uuid isn't known (any more): the service doesn't tell the two apart.
    Pending,
    /// This form of the question isn't known.
    UnknownRoute,
    /// Forbidden by a policy.
    Policy,
    /// Refused for good.
    Refused(String),
    /// Trouble that may pass.
    Passing { detail: String, retry_after: Option<Duration> },
}

/// Reads an answer of `/auth/poll` (sign-in reference, section 2.2).
pub(super) fn poll(form: PollForm, answer: &Answer) -> Poll {
    let passing =
        |what: &str| Poll::Passing { detail: format!("HTTP {}{what}", answer.status), retry_after: answer.retry_after };
    match answer.status {
        200 => poll_success(&answer.body).unwrap_or_else(|| passing(" that isn't JSON")),
        404 if form == PollForm::Post && is_unknown_route(&answer.body) => Poll::UnknownRoute,
        405 if form == PollForm::Post => Poll::UnknownRoute,
        404 => Poll::Pending,
        403 => match json_object::<ErrorAnswer>(&answer.body) {
            Some(Ok(body)) if is_policy(body.error.as_ref()) => Poll::Policy,
            Some(_) => Poll::Refused("HTTP 403".to_owned()),
            // An edge or a firewall speaks HTML; that is no word of the service.
            None => passing(" that isn't JSON"),
        },
        400 | 401 | 410 => Poll::Refused(format!("HTTP {}", answer.status)),
        _ => passing(""),
    }
}

fn poll_success(body: &[u8]) -> Option<Poll> {
    let Ok(body) = json_object::<PollAnswer>(body)? else {
        return Some(Poll::Refused("an answer that can't be read".to_owned()));
    };
    if is_policy(body.error.as_ref()) {
        return Some(Poll::Policy);
    }
    if body.error.is_some_and(|error| !error.is_null() && error != Value::Bool(false)) {
        return Some(Poll::Refused("an error under HTTP 200".to_owned()));
    }
    let (Some(access), Some(refresh)) = (text(body.access_token), text(body.refresh_token)) else {
        return Some(Poll::Pending);
    };
    if !(is_usable(&access) && is_usable(&refresh)) {
        return Some(Poll::Refused("a token that can't be used".to_owned()));
    }
    Some(Poll::Done(Grant {
        access: AccessToken::new(access),
        refresh: RefreshToken::new(refresh),
        auth_id: text(body.auth_id),
    }))
}

/// What an answer to a renewal means.
pub(super) enum Renewal {
    /// A new access token, and a refresh token where one came along.
    Renewed { access: AccessToken, refresh: Option<RefreshToken> },
    /// The service ended this refresh token.
    Final { cause: String, policy: bool },
    /// 403 in the service's own words: final only where it repeats.
    Forbidden,
    /// Trouble that may pass.
    Passing { detail: String, retry_after: Option<Duration> },
}

/// Reads an answer of `/oauth/token` (sign-in reference, section 3.6).
pub(super) fn renewal(answer: &Answer) -> Renewal {
    let status = answer.status;
    let passing =
        |what: &str| Renewal::Passing { detail: format!("HTTP {status}{what}"), retry_after: answer.retry_after };
    let ended = |cause: &str, policy| Renewal::Final { cause: cause.to_owned(), policy };
    let json = json_object::<TokenAnswer>(&answer.body);
    if matches!(status, 200 | 400 | 401 | 403)
        && let Some(Ok(body)) = &json
    {
        let policy = is_policy(body.error.as_ref());
        // Only the boolean: a logout is too dear to be read out of something like it.
        if body.should_logout == Some(Value::Bool(true)) || (policy && status != 200) {
            let cause = if policy { "a sign-in policy forbids it" } else { "the service ended the session" };
            return ended(cause, policy);
        }
    }
    match (status, json) {
        (200, Some(Ok(body))) => renewed(body).unwrap_or_else(passing),
        (200, Some(Err(()))) => passing(" with fields that can't be read"),
        (200, None) => passing(" that isn't a JSON object"),
        // A page of an edge or of a proxy is never a logout.
        (401 | 403, None) if is_page(&answer.body) => passing(" with a page"),
        (401, _) => ended("the service refused the renewal (HTTP 401)", false),
        (403, Some(_)) => Renewal::Forbidden,
        (400, Some(Ok(body))) => match [&body.error, &body.code].into_iter().find_map(|code| spent(code.as_ref())) {
            Some(code) => ended(&format!("the service refused the renewal ({code})"), false),
            None => passing(""),
        },
        _ => passing(""),
    }
}

fn renewed(body: TokenAnswer) -> Result<Renewal, &'static str> {
    if !matches!(body.should_logout, None | Some(Value::Null | Value::Bool(false))) {
        return Err(" with fields of other types");
    }
    let access = match body.access_token {
        Some(Value::String(access)) if is_usable(&access) => access,
        None | Some(Value::Null) => return Err(" without an access token"),
        Some(Value::String(access)) if access.is_empty() => return Err(" without an access token"),
        Some(Value::String(_)) => return Err(" with a token that can't be used"),
        Some(_) => return Err(" with fields of other types"),
    };
    let refresh = match body.refresh_token {
        None | Some(Value::Null) => None,
        Some(Value::String(refresh)) if refresh.is_empty() => None,
        Some(Value::String(refresh)) if is_usable(&refresh) => Some(RefreshToken::new(refresh)),
        Some(_) => return Err(" with a refresh token that can't be used"),
    };
    Ok(Renewal::Renewed { access: AccessToken::new(access), refresh })
}

/// Whether a token may become a header: visible ASCII, not over-long. CR, LF, NUL and spaces would split or garble it.
pub(super) fn is_usable(token: &str) -> bool {
    !token.is_empty() && token.len() <= TOKEN_LIMIT && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `None` where the body isn't a JSON object at all; `Some(Err)` where it is one whose fields can't be read (one of them twice, say).
fn json_object<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Option<Result<T, ()>> {
    if !body.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    match serde_json::from_slice(body) {
        Ok(read) => Some(Ok(read)),
        Err(error) if error.is_data() => Some(Err(())),
        Err(_) => None,
    }
}

/// `Route POST:/auth/poll not found` in JSON, where pending is the plain text `Not found`.
fn is_unknown_route(body: &[u8]) -> bool {
    let Some(Ok(body)) = json_object::<ErrorAnswer>(body) else {
        return false;
    };
    text(body.message).is_some_and(|message| {
        let message = message.to_ascii_lowercase();
        message.starts_with("route ") && message.ends_with("not found")
    })
}

fn is_policy(error: Option<&Value>) -> bool {
    error.and_then(Value::as_str).is_some_and(|code| code.eq_ignore_ascii_case(POLICY))
}

fn spent(code: Option<&Value>) -> Option<&'static str> {
    let code = code?.as_str()?;
    SPENT.into_iter().find(|known| known.eq_ignore_ascii_case(code))
}

fn is_page(body: &[u8]) -> bool {
    body.trim_ascii_start().starts_with(b"<")
}

fn text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, body: body.as_bytes().to_vec(), retry_after: None, date: None }
    }

    fn polled(status: u16, body: &str) -> String {
        named_poll(&poll(PollForm::Post, &answer(status, body)))
    }

    fn named_poll(read: &Poll) -> String {
        match read {
            Poll::Done(_) => "done".into(),
            Poll::Pending => "pending".into(),
            Poll::UnknownRoute => "unknown route".into(),
            Poll::Policy => "policy".into(),
            Poll::Refused(detail) => format!("refused: {detail}"),
            Poll::Passing { detail, .. } => format!("passing: {detail}"),
        }
    }

    #[test]
    fn polls_are_told_apart() {
        let long = format!(r#"{{"accessToken":"{}","refreshToken":"b"}}"#, "a".repeat(TOKEN_LIMIT + 1));
        let table = [
            (404, "Not found", "pending"),
            (404, "", "pending"),
            (404, r#"{"message":"nothing there"}"#, "pending"),
            (
                404,
                r#"{"message":"Route POST:/auth/poll not found","error":"Not Found","statusCode":404}"#,
                "unknown route",
            ),
            (405, "", "unknown route"),
            (200, r#"{"accessToken":"a","refreshToken":"b"}"#, "done"),
            (200, r#"{"accessToken":"a","refreshToken":"b","authId":"x","selectedTeamId":7,"more":[]}"#, "done"),
            (200, r#"{"accessToken":"a","refreshToken":"b","selectedTeamId":"7","error":null}"#, "done"),
            (200, r#"{"accessToken":"a"}"#, "pending"),
            (200, r#"{"accessToken":"a","refreshToken":""}"#, "pending"),
            (200, r#"{"accessToken":"a","refreshToken":5}"#, "pending"),
            (200, "{}", "pending"),
            (200, r#"{"accessToken":"a","refreshToken":"b","error":"denied"}"#, "refused: an error under HTTP 200"),
            (200, r#"{"error":"sign_in_policy_violation"}"#, "policy"),
            (
                200,
                r#"{"accessToken":"a","accessToken":"c","refreshToken":"b"}"#,
                "refused: an answer that can't be read",
            ),
            (200, "{\"accessToken\":\"a\\r\\nX: y\",\"refreshToken\":\"b\"}", "refused: a token that can't be used"),
            (200, "{\"accessToken\":\"a\",\"refreshToken\":\"b c\"}", "refused: a token that can't be used"),
            (200, "{\"accessToken\":\"a\\u0000\",\"refreshToken\":\"b\"}", "refused: a token that can't be used"),
            (200, long.as_str(), "refused: a token that can't be used"),
            (200, "<html>sign in to the Wi-Fi</html>", "passing: HTTP 200 that isn't JSON"),
            (200, "", "passing: HTTP 200 that isn't JSON"),
            (200, "{", "passing: HTTP 200 that isn't JSON"),
            (403, r#"{"error":"sign_in_policy_violation"}"#, "policy"),
            (403, r#"{"error":"SIGN_IN_POLICY_VIOLATION"}"#, "policy"),
            (403, r#"{"error":"Not authorized"}"#, "refused: HTTP 403"),
            (403, "<html>blocked</html>", "passing: HTTP 403 that isn't JSON"),
            (403, "", "passing: HTTP 403 that isn't JSON"),
            (400, "", "refused: HTTP 400"),
            (401, "", "refused: HTTP 401"),
            (410, "", "refused: HTTP 410"),
            (429, "", "passing: HTTP 429"),
            (500, "", "passing: HTTP 500"),
            (302, "", "passing: HTTP 302"),
            (204, "", "passing: HTTP 204"),
        ];
        for (status, body, expected) in table {
            assert_eq!(polled(status, body), expected, "{status} {body}");
        }
        // A GET that isn't known can't fall back any further.
        let get = poll(PollForm::Get, &answer(404, r#"{"message":"Route GET:/auth/poll not found"}"#));
        assert_eq!(named_poll(&get), "pending");
    }

    fn renewed_as(status: u16, body: &str) -> String {
        match renewal(&answer(status, body)) {
            Renewal::Renewed { refresh, .. } => format!("renewed {}", if refresh.is_some() { "both" } else { "one" }),
            Renewal::Final { cause, policy } => format!("final{}: {cause}", if policy { " by policy" } else { "" }),
            Renewal::Forbidden => "forbidden".into(),
            Renewal::Passing { detail, .. } => format!("passing: {detail}"),
        }
    }

    #[test]
    fn renewals_are_told_apart() {
        let ended = "final: the service ended the session";
        let refused = "final: the service refused the renewal (HTTP 401)";
        let policy = "final by policy: a sign-in policy forbids it";
        let types = "passing: HTTP 200 with fields of other types";
        let table = [
            (200, r#"{"access_token":"a","id_token":"i","shouldLogout":false}"#, "renewed one"),
            (200, r#"{"access_token":"a"}"#, "renewed one"),
            (200, r#"{"access_token":"a","refresh_token":"","shouldLogout":null}"#, "renewed one"),
            (200, r#"{"access_token":"a","refresh_token":"r","token_type":"Bearer"}"#, "renewed both"),
            (200, r#"{"access_token":"","id_token":"","shouldLogout":true}"#, ended),
            (200, r#"{"access_token":"a","should_logout":true}"#, ended),
            (200, r#"{"shouldLogout":true,"error":"sign_in_policy_violation"}"#, policy),
            (200, r#"{"access_token":"","id_token":""}"#, "passing: HTTP 200 without an access token"),
            (200, r#"{"access_token":null}"#, "passing: HTTP 200 without an access token"),
            (200, "{}", "passing: HTTP 200 without an access token"),
            (200, r#"{"access_token":"a","shouldLogout":"true"}"#, types),
            (200, r#"{"access_token":5}"#, types),
            (200, r#"{"access_token":"a b"}"#, "passing: HTTP 200 with a token that can't be used"),
            (
                200,
                r#"{"access_token":"a","refresh_token":5}"#,
                "passing: HTTP 200 with a refresh token that can't be used",
            ),
            (200, r#"{"access_token":"a","access_token":"b"}"#, "passing: HTTP 200 with fields that can't be read"),
            (200, r#"["a"]"#, "passing: HTTP 200 that isn't a JSON object"),
            (200, "<html></html>", "passing: HTTP 200 that isn't a JSON object"),
            (401, "", refused),
            (401, "nope", refused),
            (401, r#"{"error":"unauthorized"}"#, refused),
            (401, " <!doctype html>", "passing: HTTP 401 with a page"),
            (403, r#"{"error":"nope"}"#, "forbidden"),
            (403, r#"{"shouldLogout":true}"#, ended),
            (403, r#"{"error":"sign_in_policy_violation"}"#, policy),
            (403, "<html></html>", "passing: HTTP 403 with a page"),
            (403, "", "passing: HTTP 403"),
            (400, r#"{"error":"invalid_grant"}"#, "final: the service refused the renewal (invalid_grant)"),
            (
                400,
                r#"{"code":"refresh_token_reused"}"#,
                "final: the service refused the renewal (refresh_token_reused)",
            ),
            (400, r#"{"error":"invalid_request"}"#, "passing: HTTP 400"),
            (400, r#"{"shouldLogout":true}"#, ended),
            (400, "invalid_grant", "passing: HTTP 400"),
            (404, "<html>Not Found</html>", "passing: HTTP 404"),
            (404, r#"{"shouldLogout":true}"#, "passing: HTTP 404"),
            (415, "", "passing: HTTP 415"),
            (429, "", "passing: HTTP 429"),
            (500, r#"{"shouldLogout":true}"#, "passing: HTTP 500"),
            (307, "", "passing: HTTP 307"),
        ];
        for (status, body, expected) in table {
            assert_eq!(renewed_as(status, body), expected, "{status} {body}");
        }
    }

    proptest! {
        /// Whatever comes, nothing of it gets into a text that may be logged.
        #[test]
        fn no_body_gets_into_a_text(status in 200u16..600, secret in "[a-z]{12}", field in 0usize..5) {
            let name = ["error", "message", "code", "accessToken", "access_token"][field];
            let body = format!(r#"{{"{name}":"{secret}"}}"#);
            prop_assert!(!polled(status, &body).contains(&secret));
            prop_assert!(!renewed_as(status, &body).contains(&secret));
            let debug = format!("{:?}", answer(status, &body));
            prop_assert!(!debug.contains(&secret));
        }
    }
}
