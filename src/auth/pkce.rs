//! The start of a sign-in: verifier, challenge, uuid and the link (sign-in reference, section 1).

use oauth2::{PkceCodeChallenge, PkceCodeVerifier};
use uuid::Uuid;

use crate::config::Address;

/// A fresh attempt: what the link needs and what the poll needs.
pub(super) struct Fresh {
    /// For the person. Holds the challenge and the uuid.
    pub(super) url: String,
    /// Random version 4, lower case with hyphens.
    pub(super) uuid: String,
    /// 32 random bytes, base64url without padding.
    pub(super) verifier: PkceCodeVerifier,
}

/// Draws a verifier and a uuid and writes the link.
pub(super) fn fresh(website: &Address) -> Fresh {
    let verifier = PkceCodeChallenge::new_random_sha256_len(32).1;
    let uuid = Uuid::new_v4().hyphenated().to_string();
    Fresh { url: link(website, &verifier, &uuid), uuid, verifier }
}

/// The challenge is the SHA-256 of the verifier's text, not of the bytes it was made from (RFC 7636, S256); the page takes that method for granted.
fn link(website: &Address, verifier: &PkceCodeVerifier, uuid: &str) -> String {
    let challenge = PkceCodeChallenge::from_code_verifier_sha256(verifier);
    let mut url = website.at("/loginDeepControl");
    url.query_pairs_mut()
        .append_pair("challenge", challenge.as_str())
        .append_pair("uuid", uuid)
        .append_pair("mode", "login")
        // What the desktop program of the same service names itself.
        .append_pair("redirectTarget", "sand")
        .append_pair("supportsSelectedTeamLogin", "true");
    url.into()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    fn website() -> Address {
        Address::parse("https://cursor.com", false).unwrap()
    }

    #[test]
    fn the_challenge_is_the_hash_of_the_verifiers_text() {
        let bytes: Vec<u8> = (0..32).collect();
        let encoded = URL_SAFE_NO_PAD.encode(bytes);
        let table = [
            ("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
            (encoded.as_str(), "6oZqdX5MOLq_qBJ8vppAnT4fk6AP8UiP9zX8-Rev_9A"),
        ];
        for (verifier, challenge) in table {
            let link = link(&website(), &PkceCodeVerifier::new(verifier.to_owned()), "u");
            assert_eq!(
                link,
                format!(
                    "https://cursor.com/loginDeepControl?challenge={challenge}&uuid=u&mode=login&redirectTarget=sand\
                     &supportsSelectedTeamLogin=true"
                )
            );
        }
    }

    #[test]
    fn every_attempt_is_its_own_and_the_verifier_stays_out_of_the_link() {
        let mut seen = HashSet::new();
        for _ in 0..50 {
            let fresh = fresh(&website());
            assert_eq!(fresh.verifier.secret().len(), 43);
            assert!(!fresh.url.contains(fresh.verifier.secret().as_str()));
            let uuid = Uuid::parse_str(&fresh.uuid).unwrap();
            assert_eq!(uuid.get_version_num(), 4);
            assert_eq!(fresh.uuid, fresh.uuid.to_lowercase());
            assert!(fresh.url.contains(&format!("&uuid={}&", fresh.uuid)));
            assert!(seen.insert(fresh.uuid) && seen.insert(fresh.verifier.secret().clone()));
        }
    }
}
