//! Signing in: the page that a person confirms, the poll, renewal (sign-in reference, sections 1 to 3).

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::server::{Call, Shared, answer, fields, json as json_answer, text};
use super::tokens::{CLIENT_ID, Renewal};
use super::world::World;

/// A sign-in under way, known since its page was opened, its first poll, or the control's word.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    /// From the link; unknown where nobody opened it.
    challenge: Option<String>,
    /// `authId` of who confirmed.
    confirmed: Option<String>,
    polls: u32,
    redeemed: bool,
}

/// The confirmed account of an attempt: the link's uuid and challenge, as the page submits them.
pub(super) fn confirm_attempt(world: &mut World, uuid: &str, challenge: Option<&str>) {
    let present = world.present.clone();
    let attempt = world.attempts.entry(uuid.into()).or_default();
    if let Some(challenge) = challenge {
        attempt.challenge = Some(challenge.into());
    }
    attempt.confirmed = Some(present);
    world.touch();
}

fn challenge_of(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()))
}

/// The same as upstream's rule for the shape: hex and hyphens. Nothing else gets into a page.
fn shaped(text: &str, extra: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || extra.contains(c);
    !text.is_empty() && text.len() <= 128 && text.chars().all(good)
}

const STYLE: &str = "body{font:16px/1.6 system-ui,sans-serif;margin:12vh auto;max-width:26rem;padding:0 1.5rem;color:#222;background:#fafafa}\
h1{font-size:1.3rem}button{font:inherit;padding:.6rem 1.6rem;border:0;border-radius:.5rem;background:#336699;color:#fff;cursor:pointer}\
small{color:#666}";

fn html(status: u16, title: &str, body: &str) -> Response {
    let page = format!(
        "<!doctype html><html lang=\"zh-CN\"><head><meta charset=\"utf-8\">\
<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>{title}</title><style>{STYLE}</style></head>\
<body><main><h1>{title}</h1>{body}</main></body></html>"
    );
    let mut response = answer(status, "text/html; charset=utf-8", page);
    // Nothing but this page's own style and form.
    let style = STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    let headers = response.headers_mut();
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// `GET /loginDeepControl`: who holds the link is asked to confirm.
pub(super) fn page(shared: &Shared, call: &Call) -> Response {
    let query = call.query();
    let field = |name: &str| query.get(name).and_then(Value::as_str).unwrap_or("");
    let (uuid, challenge) = (field("uuid"), field("challenge"));
    if !shaped(uuid, "-") || !shaped(challenge, "-_") || field("mode") != "login" {
        return html(
            400,
            "链接不完整",
            "<p>请回到应用里重新取一个登录链接。</p><p><small>This sign-in link is incomplete.</small></p>",
        );
    }
    let mut world = shared.world();
    world.attempts.entry(uuid.into()).or_default().challenge = Some(challenge.into());
    let form = format!(
        "<p>有一个应用想用你的模拟账号登录 Grok Bot。</p>\
<form method=\"post\" action=\"/loginDeepControl/confirm\">\
<input type=\"hidden\" name=\"uuid\" value=\"{uuid}\"><input type=\"hidden\" name=\"challenge\" value=\"{challenge}\">\
<button type=\"submit\">继续 / Continue</button></form>\
<p><small>这是本机上的模拟服务，不会用到真实账号。A simulated service on this machine; no real account is involved.</small></p>"
    );
    html(200, "登录 Grok Bot（模拟）", &form)
}

/// `POST /loginDeepControl/confirm`.
pub(super) fn confirm(shared: &Shared, call: &Call) -> Response {
    let form = fields(&call.bytes);
    let field = |name: &str| form.get(name).and_then(Value::as_str).unwrap_or("");
    let (uuid, challenge) = (field("uuid"), field("challenge"));
    let mut world = shared.world();
    let opened = world.attempts.get(uuid).is_some_and(|attempt| attempt.challenge.as_deref() == Some(challenge));
    if !opened {
        return html(400, "链接已失效", "<p>请回到应用里重新取一个登录链接。</p>");
    }
    confirm_attempt(&mut world, uuid, Some(challenge));
    html(200, "登录成功", "<p>可以关闭这个页面，回到应用。</p><p><small>All set. You can close this page.</small></p>")
}

fn pending() -> Response {
    text(StatusCode::NOT_FOUND, "Not found")
}

/// `/auth/poll`: 404 until the attempt is confirmed, then the tokens, once.
pub(super) fn poll(shared: &Shared, call: &Call) -> Response {
    let mut world = shared.world();
    let asked = if call.parts.method == Method::POST {
        if world.quirks.poll_only_get {
            let body = json!({"message": "Route POST:/auth/poll not found", "error": "Not Found", "statusCode": 404});
            return json_answer(404, &body);
        }
        match serde_json::from_slice(&call.bytes) {
            Ok(Value::Object(map)) => map,
            _ => Map::new(),
        }
    } else {
        call.query()
    };
    let field = |name: &str| asked.get(name).and_then(Value::as_str).unwrap_or("");
    let (uuid, verifier) = (field("uuid"), field("verifier"));
    if !shaped(uuid, "-") || verifier.is_empty() {
        return pending();
    }
    let (auto, present, now) = (world.options.auto_confirm, world.present.clone(), world.now());
    let attempt = world.attempts.entry(uuid.into()).or_default();
    attempt.polls += 1;
    if attempt.confirmed.is_none() && auto.is_some_and(|polls| attempt.polls >= polls) {
        attempt.confirmed = Some(present);
    }
    let right = attempt.challenge.as_ref().is_none_or(|challenge| *challenge == challenge_of(verifier));
    let owner = attempt.confirmed.clone().filter(|_| right && !attempt.redeemed);
    let Some(owner) = owner else {
        world.touch();
        return pending();
    };
    attempt.redeemed = true;
    let pair = world.tokens.sign_in(&owner, now);
    let mut body = json!({"accessToken": pair.access, "refreshToken": pair.refresh, "authId": owner});
    overlay(&mut body, &world.poll_extra);
    world.touch();
    json_answer(200, &body)
}

/// Fields from outside win; `null` removes.
fn overlay(body: &mut Value, extra: &Map<String, Value>) {
    let Value::Object(map) = body else { return };
    for (name, value) in extra {
        if value.is_null() {
            map.remove(name);
        } else {
            map.insert(name.clone(), value.clone());
        }
    }
}

/// `POST /oauth/token`: JSON only, three fields, the known client.
pub(super) fn renew(shared: &Shared, call: &Call) -> Response {
    if call.media_type() != "application/json" {
        return json_answer(415, &json!({"error": "unsupported_media_type"}));
    }
    let asked: Value = serde_json::from_slice(&call.bytes).unwrap_or(Value::Null);
    let field = |name: &str| asked.get(name).and_then(Value::as_str).unwrap_or("");
    let refresh = field("refresh_token");
    if field("grant_type") != "refresh_token" || refresh.is_empty() {
        return json_answer(400, &json!({"error": "invalid_request"}));
    }
    if field("client_id") != CLIENT_ID {
        return json_answer(400, &json!({"error": "invalid_client"}));
    }
    let mut world = shared.world();
    let now = world.now();
    let mut body = match world.tokens.renew(refresh, now) {
        Renewal::Fresh { access, refresh } => {
            let mut body = json!({"access_token": access, "id_token": access, "shouldLogout": false});
            if let Some(refresh) = refresh {
                body["refresh_token"] = refresh.into();
            }
            body
        }
        // Under HTTP 200 (sign-in reference, section 3.3).
        Renewal::Dead => json!({"access_token": "", "id_token": "", "shouldLogout": true}),
    };
    overlay(&mut body, &world.renewal_extra);
    json_answer(200, &body)
}

/// `POST /auth/exchange_user_api_key`: a session token is no key.
pub(super) fn exchange_key(shared: &Shared, call: &Call) -> Response {
    if !call.bearer().starts_with("crsr_") {
        return json_answer(401, &json!({"error": "Invalid User API Key"}));
    }
    let mut world = shared.world();
    let (present, now) = (world.present.clone(), world.now());
    let pair = world.tokens.of_key(&present, now);
    json_answer(200, &json!({"accessToken": pair.access, "refreshToken": pair.refresh}))
}

/// Fills in the places for tokens of a scripted answer.
pub(super) fn with_tokens(shared: &Shared, body: String) -> String {
    if !body.contains("{{access}}") && !body.contains("{{refresh}}") {
        return body;
    }
    let mut world = shared.world();
    let (present, now) = (world.present.clone(), world.now());
    let pair = world.tokens.sign_in(&present, now);
    body.replace("{{access}}", &pair.access).replace("{{refresh}}", &pair.refresh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_over_the_verifiers_text() {
        // The vector of RFC 7636, appendix B.
        assert_eq!(
            challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn nothing_but_plain_ids_gets_into_the_page() {
        assert!(shaped("11111111-1111-4111-8111-111111111111", "-"));
        assert!(!shaped("\"><script>", "-"));
        assert!(!shaped("", "-"));
    }
}
