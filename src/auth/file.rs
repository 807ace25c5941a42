//! `native-auth.json`: the tokens on disk.
//!
//! Two locks lie beside it. `native-auth.lock` is held over a whole renewal (re-read, exchange, write), so that of several processes one asks the
//! service. `native-auth.write.lock` is held for the length of one write or removal, so that a sign-out needn't wait for a slow exchange and still
//! can't be overtaken by its write. Readers take none: the file is replaced atomically.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oauth2::{AccessToken, RefreshToken};
use serde_json::{Value, json};

use super::convert::{Grant, is_usable};
use super::document::Document;
use super::jwt;
use super::renew::{Fingerprint, Renewed};
use crate::disk::{self, DiskError, Lock};
use crate::model::Wall;

const NAME: &str = "native-auth.json";
const RENEWAL_LOCK: &str = "native-auth.lock";
const WRITE_LOCK: &str = "native-auth.write.lock";
/// Where an unreadable file goes when a new sign-in takes its place.
const SET_ASIDE: &str = "native-auth.json.bad";

const ACCESS: &str = "accessToken";
const REFRESH: &str = "refreshToken";
const AUTH_ID: &str = "authId";
const USER_ID: &str = "userId";
/// The refresh token before `refreshToken`, until that has worked.
const PREVIOUS: &str = "previousRefreshToken";
/// When the tokens were obtained, in milliseconds by this machine's clock: compared with the same clock alone, so it may be wrong.
const OBTAINED: &str = "obtainedAt";

/// A real file has a few kilobytes.
const LIMIT: u64 = 1024 * 1024;
/// Writers hold the lock for milliseconds.
const WRITE_LOCK_WAIT: Duration = Duration::from_secs(2);

/// Why the file can't be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    /// As it is it will never do: corrupt, a symbolic link, another user's, too long, a mode that can't be narrowed.
    #[error("{0}")]
    Unusable(String),
    /// The system refused, maybe just now: too many open files, a full disk, a busy lock.
    #[error(transparent)]
    Passing(DiskError),
}

impl From<DiskError> for FileError {
    fn from(error: DiskError) -> Self {
        match error {
            // Of a folder that was made so while a provider runs: the sign-in is no other than before.
            DiskError::Busy(_) | DiskError::Writable(_) => Self::Passing(error),
            DiskError::Io { ref source, .. } if source.kind() != std::io::ErrorKind::PermissionDenied => {
                Self::Passing(error)
            }
            _ => Self::Unusable(error.to_string()),
        }
    }
}

/// What the file says.
pub(super) struct Credentials {
    pub(super) access: AccessToken,
    pub(super) refresh: Option<RefreshToken>,
    pub(super) previous: Option<RefreshToken>,
    pub(super) auth_id: Option<String>,
    pub(super) obtained_at: Option<Wall>,
}

impl Credentials {
    /// `None` where the document holds no tokens at all.
    fn read(document: &Document) -> Result<Option<Self>, FileError> {
        let access = token(document, ACCESS)?.map(AccessToken::new);
        let refresh = token(document, REFRESH)?.map(RefreshToken::new);
        let Some(access) = access else {
            return match refresh {
                None => Ok(None),
                Some(_) => Err(FileError::Unusable(format!("{NAME} holds no {ACCESS}"))),
            };
        };
        Ok(Some(Self {
            access,
            refresh,
            previous: token(document, PREVIOUS)?.map(RefreshToken::new),
            auth_id: match value(document, AUTH_ID) {
                Some(Value::String(text)) if !text.is_empty() => Some(text),
                _ => None,
            },
            obtained_at: value(document, OBTAINED).and_then(|value| value.as_i64()).map(Wall),
        }))
    }

    /// Takes over a renewal that couldn't be written.
    pub(super) fn apply(&mut self, renewed: &Renewed) {
        self.access = renewed.access.clone();
        self.refresh = Some(renewed.refresh.clone());
        self.previous.clone_from(&renewed.previous);
        self.obtained_at = Some(renewed.at);
    }

    /// The refresh token's fingerprint.
    pub(super) fn refresh_mark(&self) -> Option<Fingerprint> {
        self.refresh.as_ref().map(|refresh| Fingerprint::of(refresh.secret()))
    }
}

fn value(document: &Document, name: &str) -> Option<Value> {
    serde_json::from_str(document.raw(name)?).ok()
}

/// Absent, null and empty are one: no token. Anything else that isn't a usable token makes the file unusable, also what no JSON value can be made of
/// (half a surrogate pair, a number past all numbers, great depth): it stands in a token's place, so the token isn't absent.
fn token(document: &Document, name: &str) -> Result<Option<String>, FileError> {
    let Some(raw) = document.raw(name) else { return Ok(None) };
    match serde_json::from_str::<Option<String>>(raw) {
        Ok(None) => Ok(None),
        Ok(Some(text)) if text.is_empty() => Ok(None),
        Ok(Some(text)) if is_usable(&text) => Ok(Some(text)),
        Ok(Some(_)) | Err(_) => Err(FileError::Unusable(format!("{NAME}: {name} can't be used"))),
    }
}

/// What became of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Saved {
    /// Written.
    Yes,
    /// Not written: the file holds another refresh token now, by another process or a new sign-in.
    Changed,
    /// Not written: somebody signed out.
    Gone,
}

/// The file and its locks.
pub(super) struct Store {
    folder: PathBuf,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.folder).finish()
    }
}

impl Store {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn file(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// Reads the file. Narrows its mode and the folder's where they let others in.
    pub(super) fn load(&self) -> Result<Option<Credentials>, FileError> {
        match self.document()? {
            Some(document) => Credentials::read(&document),
            None => Ok(None),
        }
    }

    fn document(&self) -> Result<Option<Document>, FileError> {
        if !disk::check_folder(&self.folder)? {
            return Ok(None);
        }
        let Some(bytes) = disk::read_private(&self.file(), LIMIT)? else {
            return Ok(None);
        };
        match Document::parse(&bytes) {
            Some(document) => Ok(Some(document)),
            None => Err(FileError::Unusable(format!("{NAME} isn't a JSON object that can be read"))),
        }
    }

    /// Creates the folder and tries the lock, so that what will not be storable is known before the person signs in.
    pub(super) fn prepare(&self) -> Result<(), FileError> {
        disk::private_folder(&self.folder)?;
        self.write_lock().map(drop)
    }

    /// Waits its turn for a renewal.
    pub(super) async fn renewal_lock(&self, wait: Duration) -> Result<Lock, DiskError> {
        Lock::acquire(&self.folder.join(RENEWAL_LOCK), wait).await
    }

    fn write_lock(&self) -> Result<Lock, FileError> {
        Ok(Lock::within(&self.folder.join(WRITE_LOCK), WRITE_LOCK_WAIT)?)
    }

    /// Writes a renewal, if the file still holds the refresh token `began` that the renewal began from. Blocks for the length of a file write, on
    /// purpose: no await lies between a renewal's answer and the file, so no cancellation can lose it there.
    pub(super) fn save_renewed(&self, began: Fingerprint, renewed: &Renewed) -> Result<Saved, FileError> {
        if !disk::check_folder(&self.folder)? {
            return Ok(Saved::Gone);
        }
        let _lock = self.write_lock()?;
        let Some(mut document) = self.document()? else {
            return Ok(Saved::Gone);
        };
        match Credentials::read(&document)? {
            None => return Ok(Saved::Gone),
            Some(now) if now.refresh_mark() != Some(began) => return Ok(Saved::Changed),
            Some(_) => {}
        }
        document.set(ACCESS, &json!(renewed.access.secret()));
        document.set(REFRESH, &json!(renewed.refresh.secret()));
        match &renewed.previous {
            Some(previous) => document.set(PREVIOUS, &json!(previous.secret())),
            None => document.remove(PREVIOUS),
        }
        document.set(OBTAINED, &json!(renewed.at.0));
        self.write(&document)?;
        Ok(Saved::Yes)
    }

    /// Writes what a sign-in gave. Unknown fields of the file stay; a file that can't be used is set aside first. Blocks as [`Self::save_renewed`].
    pub(super) fn save_grant(&self, grant: &Grant, at: Wall) -> Result<(), FileError> {
        disk::private_folder(&self.folder)?;
        let _lock = self.write_lock()?;
        let usable = self.document().and_then(|document| match document {
            Some(document) => Ok((Credentials::read(&document)?, document)),
            None => Ok((None, Document::default())),
        });
        let (old, mut document, unusable) = match usable {
            Ok((old, document)) => (old, document, false),
            Err(FileError::Unusable(_)) => (None, Document::default(), true),
            Err(error) => return Err(error),
        };
        let subject = jwt::claims(grant.access.secret()).subject;
        let same_account =
            subject.is_some() && old.is_some_and(|old| jwt::claims(old.access.secret()).subject == subject);
        if !same_account {
            document.remove(USER_ID);
        }
        document.set(ACCESS, &json!(grant.access.secret()));
        document.set(REFRESH, &json!(grant.refresh.secret()));
        // The service's `authId` and the token's `sub` are the same text (sign-in reference, section 5).
        match grant.auth_id.as_ref().or(subject.as_ref()) {
            Some(auth_id) => document.set(AUTH_ID, &json!(auth_id)),
            None => document.remove(AUTH_ID),
        }
        document.remove(PREVIOUS);
        document.set(OBTAINED, &json!(at.0));
        if unusable {
            let aside = self.aside()?;
            std::fs::rename(self.file(), &aside).map_err(|source| DiskError::Io {
                action: "set aside",
                path: self.file(),
                source,
            })?;
            tracing::warn!(path = %aside.display(), "set the unreadable sign-in file aside");
        }
        self.write(&document)
    }

    /// Removes the tokens, wherever they may lie: the file, one that was set aside, a half-written one.
    pub(super) fn remove(&self) -> Result<(), FileError> {
        if !disk::check_folder(&self.folder)? {
            return Ok(());
        }
        let _lock = self.write_lock()?;
        // The file first: it is what makes the difference if the rest fails.
        disk::remove(&self.file())?;
        for aside in self.set_aside()? {
            disk::remove(&aside)?;
        }
        disk::sweep_leftovers(&self.file())?;
        Ok(())
    }

    /// Where an unreadable file goes: over the one before it, around a folder that somebody has put there.
    fn aside(&self) -> Result<PathBuf, DiskError> {
        let names = (0..u32::MAX).map(|count| match count {
            0 => self.folder.join(SET_ASIDE),
            _ => self.folder.join(format!("{SET_ASIDE}-{count}")),
        });
        names.into_iter().find(|path| !path.is_dir()).ok_or_else(|| DiskError::NotAFile(self.folder.join(SET_ASIDE)))
    }

    /// The files that were set aside. A folder of such a name isn't ours.
    fn set_aside(&self) -> Result<Vec<PathBuf>, DiskError> {
        let listed = |source| DiskError::Io { action: "list", path: self.folder.clone(), source };
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(listed)? {
            let entry = entry.map_err(listed)?;
            let named = entry.file_name().to_str().is_some_and(|name| {
                let count = name
                    .strip_prefix(SET_ASIDE)
                    .and_then(|rest| if rest.is_empty() { Some("0") } else { rest.strip_prefix('-') });
                count.is_some_and(|count| count.parse::<u32>().is_ok())
            });
            if named && !entry.file_type().map_err(listed)?.is_dir() {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    fn write(&self, document: &Document) -> Result<(), FileError> {
        disk::sweep_leftovers(&self.file())?;
        Ok(disk::write_private(&self.file(), document.render().as_bytes())?)
    }
}

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::auth::jwt::tests::token;

    fn grant(access: &str) -> Grant {
        Grant { access: AccessToken::new(access.into()), refresh: RefreshToken::new("refresh".into()), auth_id: None }
    }

    fn folder() -> (tempfile::TempDir, Store, PathBuf) {
        let scratch = tempfile::tempdir().unwrap();
        let store = Store::new(&scratch.path().join("data"));
        disk::private_folder(&store.folder).unwrap();
        let file = store.file();
        (scratch, store, file)
    }

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn unusable(store: &Store) -> String {
        match store.load() {
            Err(FileError::Unusable(cause)) => cause,
            Ok(_) => panic!("the file was taken"),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn a_file_of_the_older_plugin_goes_on_working() {
        let (_scratch, store, file) = folder();
        let posts = store.folder.join("posts.json");
        std::fs::write(&posts, r#"{"a":1}"#).unwrap();
        for user_id in ["17", "\"17\""] {
            let text = format!(
                r#"{{"version":1,"accessToken":"old","refreshToken":"r","authId":"auth0|x","userId":{user_id},"more":{{"b":2,"a":1.0}}}}"#
            );
            std::fs::write(&file, text).unwrap();
            let read = store.load().unwrap().unwrap();
            assert_eq!((read.access.secret().as_str(), read.auth_id.as_deref()), ("old", Some("auth0|x")));
            let renewed = Renewed {
                access: AccessToken::new("new".into()),
                refresh: RefreshToken::new("r2".into()),
                previous: Some(RefreshToken::new("r".into())),
                at: Wall(5),
            };
            assert_eq!(store.save_renewed(Fingerprint::of("r"), &renewed).unwrap(), Saved::Yes);
            assert_eq!(
                std::fs::read_to_string(&file).unwrap(),
                format!(
                    "{{\n  \"version\": 1,\n  \"accessToken\": \"new\",\n  \"refreshToken\": \"r2\",\n  \"authId\": \"auth0|x\",\n  \
                     \"userId\": {user_id},\n  \"more\": {{\"b\":2,\"a\":1.0}},\n  \"previousRefreshToken\": \"r\",\n  \"obtainedAt\": 5\n}}\n"
                )
            );
        }
        assert_eq!(std::fs::read_to_string(posts).unwrap(), r#"{"a":1}"#);
    }

    #[test]
    fn what_is_no_sign_in_file_is_unusable_and_left_alone() {
        let (_scratch, store, file) = folder();
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1024 * 1024));
        let table = [
            "",
            "{",
            "[]",
            "null",
            r#"{"accessToken":"a","accessToken":"b"}"#,
            r#"{"accessToken":5}"#,
            r#"{"accessToken":"a b"}"#,
            "{\"accessToken\":\"a\\nb\"}",
            r#"{"refreshToken":"r"}"#,
            r#"{"accessToken":"a","refreshToken":[]}"#,
            long.as_str(),
        ];
        for text in table {
            std::fs::write(&file, text).unwrap();
            assert!(!unusable(&store).contains("a b"));
            assert!(store.save_renewed(Fingerprint::of("r"), &renewed()).is_err());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "untouched");
        }
        for text in ["{}", r#"{"accessToken":"","refreshToken":null,"kept":1}"#] {
            std::fs::write(&file, text).unwrap();
            assert!(store.load().unwrap().is_none(), "{text}");
        }
    }

    fn renewed() -> Renewed {
        Renewed {
            access: AccessToken::new("new".into()),
            refresh: RefreshToken::new("r".into()),
            previous: None,
            at: Wall(5),
        }
    }

    #[test]
    fn a_new_sign_in_sets_an_unreadable_file_aside() {
        let (_scratch, store, file) = folder();
        std::fs::write(&file, "{half").unwrap();
        store.save_grant(&grant("a"), Wall(1)).unwrap();
        assert_eq!(store.load().unwrap().unwrap().access.secret(), "a");
        let aside = store.folder.join(SET_ASIDE);
        assert_eq!(std::fs::read_to_string(&aside).unwrap(), "{half");
        assert_eq!(mode(&aside), 0o600);
        store.remove().unwrap();
        assert!(!aside.exists() && !file.exists(), "it may hold tokens too");
    }

    #[test]
    fn a_folder_where_a_file_is_set_aside_is_in_nobodys_way() {
        let (_scratch, store, file) = folder();
        let theirs = store.folder.join(SET_ASIDE);
        std::fs::create_dir(&theirs).unwrap();
        for text in ["first {", "second {"] {
            std::fs::write(&file, text).unwrap();
            store.save_grant(&grant("x"), Wall(1)).unwrap();
            assert_eq!(std::fs::read_to_string(store.folder.join("native-auth.json.bad-1")).unwrap(), text);
        }
        store.remove().unwrap();
        assert!(!file.exists() && theirs.is_dir());
        assert!(!store.folder.join("native-auth.json.bad-1").exists(), "no tokens are left");
    }

    #[test]
    fn a_new_sign_in_keeps_what_isnt_ours() {
        let (_scratch, store, file) = folder();
        let ours = token(&json!({"sub": "auth0|me"}));
        let text = format!(
            r#"{{"theme":"dark","accessToken":"{ours}","previousRefreshToken":"p","userId":"17","authId":"auth0|me"}}"#
        );
        std::fs::write(&file, text).unwrap();
        store.save_grant(&grant(&token(&json!({"sub": "auth0|me", "exp": 5}))), Wall(1)).unwrap();
        let after = std::fs::read_to_string(&file).unwrap();
        assert!(after.contains("\"theme\": \"dark\"") && after.contains("\"userId\": \"17\""), "{after}");
        assert!(!after.contains("previousRefreshToken"));

        store.save_grant(&grant(&token(&json!({"sub": "auth0|other"}))), Wall(1)).unwrap();
        let after = std::fs::read_to_string(&file).unwrap();
        assert!(after.contains("\"theme\": \"dark\"") && after.contains("\"authId\": \"auth0|other\""), "{after}");
        assert!(!after.contains("userId"), "another account's id: {after}");
    }

    #[test]
    fn no_link_is_followed() {
        let (scratch, store, file) = folder();
        let target = scratch.path().join("elsewhere.json");
        std::fs::write(&target, r#"{"accessToken":"theirs"}"#).unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o644)).unwrap();
        symlink(&target, &file).unwrap();
        assert!(unusable(&store).contains("symbolic link"));
        store.save_grant(&grant("mine"), Wall(1)).unwrap();
        assert_eq!(store.load().unwrap().unwrap().access.secret(), "mine");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), r#"{"accessToken":"theirs"}"#);
        assert_eq!(mode(&target), 0o644);

        let linked = scratch.path().join("linked");
        symlink(&store.folder, &linked).unwrap();
        let store = Store::new(&linked);
        assert!(unusable(&store).contains("symbolic link"));
        assert!(store.save_grant(&grant("x"), Wall(1)).is_err() && store.remove().is_err() && store.prepare().is_err());
    }

    #[test]
    fn an_old_wider_mode_is_narrowed_by_reading() {
        let (_scratch, store, file) = folder();
        std::fs::write(&file, r#"{"accessToken":"a"}"#).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::set_permissions(&store.folder, std::fs::Permissions::from_mode(0o775)).unwrap();
        assert!(store.load().unwrap().is_some());
        assert_eq!((mode(&file), mode(&store.folder)), (0o600, 0o700));
    }

    #[test]
    fn a_renewal_is_written_only_over_what_it_began_from() {
        let (_scratch, store, file) = folder();
        assert_eq!(store.save_renewed(Fingerprint::of("r"), &renewed()).unwrap(), Saved::Gone);
        assert!(!file.exists(), "a sign-out stays one");
        std::fs::write(&file, r#"{"accessToken":"a","refreshToken":"other"}"#).unwrap();
        assert_eq!(store.save_renewed(Fingerprint::of("r"), &renewed()).unwrap(), Saved::Changed);
        assert_eq!(store.load().unwrap().unwrap().access.secret(), "a");
    }

    #[test]
    fn a_crash_in_the_middle_of_a_write_leaves_nothing_behind_for_good() {
        let (_scratch, store, _file) = folder();
        let leftover = store.folder.join(".native-auth.json.Ab12Cd");
        std::fs::write(&leftover, "half a token").unwrap();
        store.save_grant(&grant("a"), Wall(1)).unwrap();
        assert!(!leftover.exists());
        std::fs::write(&leftover, "half a token").unwrap();
        store.remove().unwrap();
        assert!(!leftover.exists());
    }

    #[test]
    fn a11_nobody_else_can_read_the_file_at_any_moment() {
        let (_scratch, store, file) = folder();
        let before = nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
        let (done, caught) = (AtomicBool::new(false), AtomicBool::new(false));
        let seen = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let (mut files, mut folders) = (BTreeSet::new(), BTreeSet::new());
                while !done.load(Ordering::Relaxed) {
                    folders.insert(mode(&store.folder));
                    for entry in std::fs::read_dir(&store.folder).unwrap().flatten() {
                        // It may be gone by now; then it wasn't seen with any mode.
                        if let Ok(found) = std::fs::symlink_metadata(entry.path()) {
                            let temporary = entry.file_name().to_string_lossy().starts_with(".native");
                            caught.fetch_or(temporary, Ordering::Relaxed);
                            files.insert(found.mode() & 0o7777);
                        }
                    }
                    if let Ok(found) = std::fs::symlink_metadata(&file) {
                        files.insert(found.mode() & 0o7777);
                    }
                }
                (files, folders)
            });
            let mut n = 0;
            let mut save = || -> Result<(), FileError> {
                // 300 saves, and on until the temporary file was caught: on a fast disk it is there for microseconds.
                while n < 300 || (!caught.load(Ordering::Relaxed) && n < 100_000) {
                    store.save_grant(&grant(&format!("token{n}")), Wall(n))?;
                    disk::remove(&file)?;
                    n += 1;
                }
                Ok(())
            };
            let saved = save();
            done.store(true, Ordering::Relaxed);
            saved.unwrap();
            watch.join().unwrap()
        });
        nix::sys::stat::umask(before);
        let (files, folders) = seen;
        assert_eq!(folders, BTreeSet::from([0o700]));
        assert_eq!(files, BTreeSet::from([0o600]));
        assert!(caught.into_inner(), "the temporary file was never caught");
    }
}
