//! Tokens: JWT-shaped, in families that begin with a sign-in (sign-in reference, sections 3 and 4). Pure; the time is an argument.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

use super::options::TokenPolicy;

/// The client id of production. Another one is refused.
pub(super) const CLIENT_ID: &str = "KbZUR41cY7W6zRSdpSUJ7I7mLYBKOCmB";

/// An access token and its refresh token, as a sign-in brings them.
#[derive(Clone, PartialEq, Eq)]
pub struct Pair {
    /// The access token.
    pub access: String,
    /// The refresh token.
    pub refresh: String,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pair")
    }
}

struct Token {
    family: u64,
    owner: String,
    renews: bool,
    authorizes: bool,
    expires_at: i64,
    spent: bool,
}

/// All tokens ever issued here.
pub(super) struct Tokens {
    policy: TokenPolicy,
    known: HashMap<String, Token>,
    dead: HashSet<u64>,
    families: u64,
    /// Claims that win over ours; `null` removes one.
    claims: Map<String, Value>,
    rng: fastrand::Rng,
}

/// What a renewal brings.
pub(super) enum Renewal {
    Fresh { access: String, refresh: Option<String> },
    Dead,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("issued", &self.known.len()).finish_non_exhaustive()
    }
}

impl Tokens {
    pub(super) fn new(policy: TokenPolicy) -> Self {
        Self {
            policy,
            known: HashMap::new(),
            dead: HashSet::new(),
            families: 0,
            claims: Map::new(),
            rng: fastrand::Rng::new(),
        }
    }

    pub(super) fn policy_mut(&mut self) -> &mut TokenPolicy {
        &mut self.policy
    }

    pub(super) fn set_claims(&mut self, claims: Map<String, Value>) {
        self.claims = claims;
    }

    fn mint(&mut self, owner: &str, kind: &str, now: i64, expires_at: i64) -> String {
        let seconds = |ms: i64| ms.div_euclid(1000);
        let random = self.rng.u64(..);
        let mut claims = json!({
            "sub": owner,
            "time": seconds(now).to_string(),
            "randomness": format!("{:08x}-{:04x}-{:04x}", random >> 32, (random >> 16) & 0xffff, random & 0xffff),
            "exp": seconds(expires_at),
            "iss": "https://authentication.cursor.sh",
            "scope": "openid profile email offline_access",
            "aud": "https://cursor.com",
            "type": kind,
        });
        if let Value::Object(map) = &mut claims {
            for (name, value) in &self.claims {
                if value.is_null() {
                    map.remove(name);
                } else {
                    map.insert(name.clone(), value.clone());
                }
            }
        }
        let signature: [u8; 32] = std::array::from_fn(|_| self.rng.u8(..));
        let part = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let header = part(br#"{"alg":"HS256","typ":"JWT"}"#);
        format!("{header}.{}.{}", part(claims.to_string().as_bytes()), part(&signature))
    }

    fn issue(&mut self, owner: &str, family: u64, now: i64, refresh: bool) -> String {
        let life = if refresh { self.policy.refresh_life } else { self.policy.access_life };
        let expires_at = now.saturating_add(i64::try_from(life.as_millis()).unwrap_or(i64::MAX));
        let token = self.mint(owner, "session", now, expires_at);
        let kept = Token {
            family,
            owner: owner.into(),
            renews: refresh || self.policy.access_renews,
            authorizes: !refresh,
            expires_at,
            spent: false,
        };
        self.known.insert(token.clone(), kept);
        token
    }

    /// A new family.
    pub(super) fn sign_in(&mut self, owner: &str, now: i64) -> Pair {
        self.families += 1;
        let family = self.families;
        Pair { access: self.issue(owner, family, now, false), refresh: self.issue(owner, family, now, true) }
    }

    /// What a key is exchanged for: tokens of an hour that nothing renews (sign-in reference, section 3.4).
    pub(super) fn of_key(&mut self, owner: &str, now: i64) -> Pair {
        self.families += 1;
        let (family, expires_at) = (self.families, now.saturating_add(3_600_000));
        let mut token = |authorizes| {
            let token = self.mint(owner, "api_key_token", now, expires_at);
            let kept = Token { family, owner: owner.into(), renews: false, authorizes, expires_at, spent: false };
            self.known.insert(token.clone(), kept);
            token
        };
        Pair { access: token(true), refresh: token(false) }
    }

    /// Every token ever issued.
    pub(super) fn all(&self) -> impl Iterator<Item = &String> {
        self.known.keys()
    }

    /// Whose token it is, if it may make calls now.
    pub(super) fn owner(&self, bearer: &str, now: i64) -> Option<&str> {
        let token = self.known.get(bearer)?;
        let good = token.authorizes && token.expires_at > now && !self.dead.contains(&token.family);
        good.then_some(token.owner.as_str())
    }

    pub(super) fn renew(&mut self, presented: &str, now: i64) -> Renewal {
        let Some(token) = self.known.get_mut(presented) else {
            return Renewal::Dead;
        };
        let (family, owner) = (token.family, token.owner.clone());
        let reused = std::mem::replace(&mut token.spent, true);
        // An expired access token renews as well: clients of upstream keep nothing else.
        let expired = token.expires_at <= now && !token.authorizes;
        if !token.renews || expired || self.dead.contains(&family) {
            return Renewal::Dead;
        }
        if reused && self.policy.revoke_on_reuse {
            self.dead.insert(family);
            return Renewal::Dead;
        }
        let refresh = self.policy.rotate.then(|| self.issue(&owner, family, now, true));
        Renewal::Fresh { access: self.issue(&owner, family, now, false), refresh }
    }

    /// Every access token issued so far stops to authorize; renewal goes on.
    pub(super) fn expire_access(&mut self) {
        for token in self.known.values_mut().filter(|token| token.authorizes) {
            token.expires_at = i64::MIN;
        }
    }

    /// Every family is dead: only a new sign-in helps.
    pub(super) fn revoke(&mut self) {
        self.dead.extend(1..=self.families);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_three_parts_and_the_claims_that_clients_read() {
        let mut tokens = Tokens::new(TokenPolicy::default());
        let pair = tokens.sign_in("auth0|user_X", 1_790_000_000_000);
        let parts: Vec<&str> = pair.access.split('.').collect();
        assert_eq!(parts.len(), 3);
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        assert_eq!(claims["sub"], "auth0|user_X");
        assert_eq!(claims["time"], "1790000000");
        assert_eq!(claims["exp"], 1_790_000_000 + 60 * 24 * 3600);
        assert_eq!(claims["type"], "session");
    }

    #[test]
    fn reuse_kills_the_family_only_where_that_is_asked_for() {
        let policy = TokenPolicy { rotate: true, revoke_on_reuse: true, ..TokenPolicy::default() };
        let mut tokens = Tokens::new(policy);
        let first = tokens.sign_in("a", 0);
        let Renewal::Fresh { access, refresh: Some(refresh) } = tokens.renew(&first.refresh, 1) else { panic!("dead") };
        assert_eq!(tokens.owner(&access, 2), Some("a"));
        assert!(matches!(tokens.renew(&first.refresh, 2), Renewal::Dead));
        assert_eq!(tokens.owner(&access, 2), None);
        assert!(matches!(tokens.renew(&refresh, 2), Renewal::Dead));

        let mut lenient = Tokens::new(TokenPolicy::default());
        let pair = lenient.sign_in("a", 0);
        assert!(matches!(lenient.renew(&pair.refresh, 1), Renewal::Fresh { refresh: None, .. }));
        assert!(matches!(lenient.renew(&pair.refresh, 1), Renewal::Fresh { .. }));
        assert!(matches!(lenient.renew(&pair.access, 1), Renewal::Fresh { .. }));
    }

    #[test]
    fn expired_access_can_be_renewed_and_a_refresh_token_authorizes_nothing() {
        let mut tokens = Tokens::new(TokenPolicy::default());
        let pair = tokens.sign_in("a", 0);
        assert_eq!(tokens.owner(&pair.refresh, 1), None);
        tokens.expire_access();
        assert_eq!(tokens.owner(&pair.access, 1), None);
        assert!(matches!(tokens.renew(&pair.refresh, 1), Renewal::Fresh { .. }));
        tokens.revoke();
        assert!(matches!(tokens.renew(&pair.refresh, 1), Renewal::Dead));
    }
}
