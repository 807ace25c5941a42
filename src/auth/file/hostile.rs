//! Whatever stands in `native-auth.json`: it is read whole, or it is none of ours and stays as it is until a new sign-in sets it aside.

use std::collections::HashMap;

use serde_json::value::RawValue;

use super::*;
use crate::fuzz::Corpus;

/// The fields of an object in which none comes twice, in a file that isn't too long.
fn fields(bytes: &[u8]) -> Option<HashMap<String, Box<RawValue>>> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= 1024 * 1024)?;
    Document::parse(bytes)?;
    serde_json::from_str(text).ok()
}

/// What a token's field says, by its text alone: nothing, a token, or something else.
enum Said {
    Nothing,
    Token(String),
    Odd,
}

fn said(fields: &HashMap<String, Box<RawValue>>, name: &str) -> Said {
    let Some(raw) = fields.get(name) else { return Said::Nothing };
    match raw.get() {
        "null" | "\"\"" => Said::Nothing,
        text => match serde_json::from_str::<String>(text) {
            Ok(token) if token.len() <= 16 * 1024 && token.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) => {
                Said::Token(token)
            }
            _ => Said::Odd,
        },
    }
}

/// `Ok(None)`: nobody is signed in. `Err`: it can't be used.
fn by_definition(bytes: &[u8]) -> Result<Option<[Option<String>; 3]>, ()> {
    let fields = fields(bytes).ok_or(())?;
    let mut tokens = [None, None, None];
    let names = [ACCESS, REFRESH, PREVIOUS];
    for (token, name) in tokens.iter_mut().zip(names) {
        match said(&fields, name) {
            Said::Nothing => {}
            Said::Token(text) => *token = Some(text),
            // Without an access token nobody looks at the last.
            Said::Odd if name == PREVIOUS && !matches!(said(&fields, ACCESS), Said::Token(_)) => {}
            Said::Odd => return Err(()),
        }
    }
    match tokens {
        [None, None, _] => Ok(None),
        [None, Some(_), _] => Err(()),
        tokens => Ok(Some(tokens)),
    }
}

/// Every field but ours, as it is written.
fn others(bytes: &[u8]) -> Vec<(String, String)> {
    let ours = [ACCESS, REFRESH, PREVIOUS, OBTAINED, AUTH_ID, USER_ID];
    let fields = fields(bytes).unwrap_or_default().into_iter();
    let mut others: Vec<(String, String)> = fields
        .filter(|(name, _)| !ours.contains(&name.as_str()))
        .map(|(name, value)| (name, value.get().to_owned()))
        .collect();
    others.sort();
    others
}

fn check(bytes: &[u8]) {
    let scratch = tempfile::tempdir().unwrap();
    let store = Store::new(&scratch.path().join("data"));
    disk::private_folder(&store.folder).unwrap();
    let write = || std::fs::write(store.file(), bytes).unwrap();
    let now = || std::fs::read(store.file()).unwrap();
    write();

    let expected = by_definition(bytes);
    match (store.load(), &expected) {
        (Ok(None), Ok(None)) | (Err(FileError::Unusable(_)), Err(())) => {}
        (Ok(Some(read)), Ok(Some([access, refresh, previous]))) => {
            assert_eq!(Some(read.access.secret()), access.as_ref());
            assert_eq!(read.refresh.as_ref().map(RefreshToken::secret), refresh.as_ref());
            assert_eq!(read.previous.as_ref().map(RefreshToken::secret), previous.as_ref());
        }
        (read, _) => panic!("{:?} instead of {expected:?}", read.map(|read| read.is_some())),
    }
    assert_eq!(now(), bytes, "reading changes nothing");

    let renewed = Renewed {
        access: AccessToken::new("new-access".into()),
        refresh: RefreshToken::new("new-refresh".into()),
        previous: None,
        at: Wall(5),
    };
    let began = expected.as_ref().ok().and_then(|tokens| tokens.as_ref()?[1].clone());
    let saved = store.save_renewed(Fingerprint::of(began.as_deref().unwrap_or("another")), &renewed);
    match (saved, &expected, &began) {
        (Ok(Saved::Yes), Ok(Some(_)), Some(_)) => {
            assert_eq!(store.load().unwrap().unwrap().access.secret(), "new-access");
            assert_eq!(others(&now()), others(bytes), "what isn't ours stays");
        }
        (Ok(Saved::Changed), Ok(Some(_)), None) | (Ok(Saved::Gone), Ok(None), _) | (Err(_), Err(()), _) => {
            assert_eq!(now(), bytes, "untouched");
        }
        (saved, ..) => panic!("{saved:?} over {expected:?}"),
    }

    write();
    let grant = Grant {
        access: AccessToken::new("granted-access".into()),
        refresh: RefreshToken::new("granted-refresh".into()),
        auth_id: None,
    };
    store.save_grant(&grant, Wall(7)).unwrap();
    let read = store.load().unwrap().unwrap();
    assert_eq!((read.access.secret().as_str(), read.previous.is_none()), ("granted-access", true));
    let aside = store.folder.join(SET_ASIDE);
    if expected.is_ok() {
        assert!(!aside.exists());
        assert_eq!(others(&now()), others(bytes), "what isn't ours stays");
    } else {
        assert_eq!(std::fs::read(aside).unwrap(), bytes, "set aside as it was");
    }
}

#[test]
fn any_bytes_are_whole_credentials_or_none_and_nothing_foreign_is_lost() {
    Corpus::of("native-auth").fuzz(300, check);
}

#[test]
fn depth_is_no_way_in() {
    for depth in [100, 200, 100_000] {
        let nested = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        // Somebody else's field may be as deep as it likes.
        for field in ["theirs", ACCESS, REFRESH, PREVIOUS, AUTH_ID, OBTAINED] {
            let others = [ACCESS, REFRESH].into_iter().filter(|other| *other != field);
            let mut fields: Vec<String> = others.map(|other| format!(r#""{other}":"x""#)).collect();
            fields.push(format!(r#""{field}":{nested}"#));
            check(format!("{{{}}}", fields.join(",")).as_bytes());
        }
    }
}
