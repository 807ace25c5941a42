//! What a token says about itself: claims for timing and for whose it is, never for trust (sign-in reference, section 4: nobody but the service
//! can check the signature).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// Seconds since 1970 past the year 9999: no expiry of a token.
const ABSURD: i64 = 253_402_300_800;

/// The claims that matter here. Times are seconds since the Unix epoch by the service's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Claims {
    /// Whose token it is.
    pub(super) subject: Option<String>,
    /// When it ends.
    pub(super) expires: Option<i64>,
    /// When it was issued.
    pub(super) issued: Option<i64>,
}

/// Reads the claims. A token that isn't a JWT, or a claim of no use, leaves them out.
pub(super) fn claims(token: &str) -> Claims {
    let Some(payload) = payload(token) else {
        return Claims::default();
    };
    Claims {
        subject: match payload.get("sub") {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            // Some accounts were seen with a number.
            Some(Value::Number(number)) if number.is_u64() => Some(number.to_string()),
            _ => None,
        },
        expires: payload.get("exp").and_then(seconds),
        // The service writes the time of issue as a string in `time`; `iat` is usually absent.
        issued: payload.get("time").and_then(seconds).or_else(|| payload.get("iat").and_then(seconds)),
    }
}

fn payload(token: &str) -> Option<Map<String, Value>> {
    let mut parts = token.split('.');
    let (_header, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// An integer, a float or either as text; nothing negative and nothing past the year 9999.
fn seconds(value: &Value) -> Option<i64> {
    let read = match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) => text.trim().parse().ok().or_else(|| text.trim().parse().ok().and_then(whole)),
        _ => None,
    };
    read.filter(|seconds| (1..ABSURD).contains(seconds))
}

#[expect(clippy::cast_possible_truncation, reason = "the cast saturates, and what saturates is refused as absurd")]
fn whole(float: f64) -> Option<i64> {
    float.is_finite().then_some(float as i64)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A token with these claims and no real signature.
    pub(in crate::auth) fn token(claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.c2ln", part(&json!({"alg": "HS256", "typ": "JWT"})), part(claims))
    }

    #[test]
    fn the_claims_of_a_session_token_are_read() {
        let token =
            token(&json!({"sub": "auth0|user_01TEST", "time": "1700000000", "exp": 1_705_184_000, "type": "session"}));
        let read = claims(&token);
        assert_eq!(read.subject.as_deref(), Some("auth0|user_01TEST"));
        assert_eq!((read.issued, read.expires), (Some(1_700_000_000), Some(1_705_184_000)));
    }

    #[test]
    fn an_odd_expiry_is_read_or_left_out() {
        let table = [
            (json!(1_700_000_000), Some(1_700_000_000)),
            (json!("1700000000"), Some(1_700_000_000)),
            (json!(1_700_000_000.9), Some(1_700_000_000)),
            (json!("1700000000.5"), Some(1_700_000_000)),
            (json!(1_700_000_000_000_i64), None),
            (json!(u64::MAX), None),
            (json!(1e300), None),
            (json!(0), None),
            (json!(-5), None),
            (json!("soon"), None),
            (json!("NaN"), None),
            (json!(null), None),
            (json!([1]), None),
        ];
        for (exp, expected) in table {
            assert_eq!(claims(&token(&json!({"exp": exp}))).expires, expected, "{exp}");
        }
        assert_eq!(claims(&token(&json!({}))).expires, None);
    }

    #[test]
    fn what_is_no_jwt_has_no_claims() {
        for text in ["", "a", "a.b", "a.b.c", "a.e30.c.d", "..", "crsr_key"] {
            assert_eq!(claims(text), Claims::default(), "{text}");
        }
        assert_eq!(claims("e30.W10.c"), Claims::default(), "an array");
    }

    #[test]
    fn a_numeric_subject_is_its_decimal_text() {
        assert_eq!(claims(&token(&json!({"sub": 17}))).subject.as_deref(), Some("17"));
        assert_eq!(claims(&token(&json!({"sub": ""}))).subject, None);
        assert_eq!(claims(&token(&json!({"sub": {}}))).subject, None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".{0,80}", payload in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = claims(&text);
            let _ = claims(&format!("a.{}.b", URL_SAFE_NO_PAD.encode(payload)));
        }
    }
}
