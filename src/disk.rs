//! Folders and files that are the user's alone: modes, owners, symbolic links, atomic replacement, locks.
//!
//! Everything here is synchronous and small. A check is made on the open handle where it can be, so that what was checked is what is used.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use atomic_write_file::unix::OpenOptionsExt as _;
use nix::fcntl::OFlag;

/// The mode of a private folder.
const FOLDER_MODE: u32 = 0o700;
/// The mode of a private file.
const FILE_MODE: u32 = 0o600;
/// Any right of the group or of others.
const OTHERS: u32 = 0o077;
/// Everybody may write: what lies there may be anybody's.
const EVERYBODY: u32 = 0o002;
/// The sticky bit: a folder that is shared by design, like `/tmp`.
const STICKY: u32 = 0o1000;
/// How often a lock that somebody else holds is tried.
const LOCK_PACE: Duration = Duration::from_millis(20);

/// Why a private folder or file can't be used. Names paths, never contents.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// A symbolic link stands where a folder or a file of ours should be.
    #[error("{} is a symbolic link", .0.display())]
    Symlink(PathBuf),
    /// Something that isn't a folder.
    #[error("{} isn't a folder", .0.display())]
    NotAFolder(PathBuf),
    /// A folder, a pipe, a device where a file should be.
    #[error("{} isn't a plain file", .0.display())]
    NotAFile(PathBuf),
    /// It belongs to another user.
    #[error("{} belongs to another user", .0.display())]
    ForeignOwner(PathBuf),
    /// A folder that several users share by design; narrowing it would shut them out.
    #[error("{} is a shared folder, name one of its own", .0.display())]
    Shared(PathBuf),
    /// A folder in which everybody may put something.
    #[error("everybody may write into {}", .0.display())]
    Writable(PathBuf),
    /// Its mode is too wide and can't be narrowed.
    #[error("can't narrow the mode of {}: {source}", .path.display())]
    Narrow {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Longer than it may be.
    #[error("{} is longer than {limit} bytes", .path.display())]
    TooLong {
        /// Which one.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// Somebody else held the lock for the whole wait.
    #[error("{} is held by another process", .0.display())]
    Busy(PathBuf),
    /// The system refused.
    #[error("can't {action} {}: {source}", .path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl DiskError {
    /// One sentence for a person, with what to do.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Symlink(path) => {
                format!("{} 是符号链接，请换成真正的文件或文件夹，或改用别的数据目录。", path.display())
            }
            Self::NotAFolder(path) => format!("{} 不是文件夹，请移走它，或改用别的数据目录。", path.display()),
            Self::NotAFile(path) => format!("{} 不是普通文件，请移走它，或改用别的数据目录。", path.display()),
            Self::ForeignOwner(path) => format!("{} 属于另一个用户，请改用自己的数据目录。", path.display()),
            Self::Shared(path) => format!("{} 是多人共用的文件夹，请改用自己的数据目录。", path.display()),
            Self::Writable(path) => {
                format!(
                    "{} 任何人都能写入，里面的文件不可信；请检查后运行 chmod 700，或改用别的数据目录。",
                    path.display()
                )
            }
            Self::Narrow { path, source } => {
                format!("{} 的权限过宽且无法收紧（{source}），请改成只有本人能用。", path.display())
            }
            Self::TooLong { path, limit } => format!("{} 超过 {limit} 字节，请移走它。", path.display()),
            Self::Busy(path) => format!("{} 正被另一个进程使用，请稍后再试。", path.display()),
            Self::Io { path, source, .. } => {
                format!("{} 无法读写（{source}），请检查权限和磁盘空间。", path.display())
            }
        }
    }

    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }
}

/// Creates `path` and what is missing above it with mode 0700, and narrows an existing folder that is wider.
///
/// # Errors
/// A symbolic link, something that isn't a folder, a folder of another user, one with the sticky bit or one that everybody may write into, a mode
/// that can't be narrowed.
pub fn private_folder(path: &Path) -> Result<(), DiskError> {
    if !check_folder(path)? {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path).map_err(DiskError::io("create", path))?;
        check_folder(path)?;
    }
    Ok(())
}

/// Whether the folder is there. Where it is, it is checked and narrowed as [`private_folder`] does.
///
/// # Errors
/// As [`private_folder`].
pub fn check_folder(path: &Path) -> Result<bool, DiskError> {
    let Some((folder, found)) = open_folder(path)? else { return Ok(false) };
    narrow(&folder, &found, path, FOLDER_MODE)?;
    Ok(true)
}

/// The mode of a folder that [`private_folder`] would take, as it is: nothing is narrowed. `None` where there is none.
///
/// # Errors
/// As [`private_folder`], and a folder that this process can't write into.
pub fn folder_mode(path: &Path) -> Result<Option<u32>, DiskError> {
    let Some((_, found)) = open_folder(path)? else { return Ok(None) };
    let rights = nix::unistd::AccessFlags::W_OK | nix::unistd::AccessFlags::X_OK;
    nix::unistd::access(path, rights).map_err(|error| DiskError::io("write into", path)(error.into()))?;
    Ok(Some(found.mode() & 0o777))
}

/// The folder, once it is sure to be one that a person may keep private.
fn open_folder(path: &Path) -> Result<Option<(File, std::fs::Metadata)>, DiskError> {
    // Asked first for a clear word: the open below fails on a link too, with a code that differs between systems.
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DiskError::io("look at", path)(error)),
        Ok(found) if found.file_type().is_symlink() => return Err(DiskError::Symlink(path.to_owned())),
        Ok(found) if !found.is_dir() => return Err(DiskError::NotAFolder(path.to_owned())),
        Ok(_) => {}
    }
    let folder = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits())
        .open(path)
        .map_err(DiskError::io("open", path))?;
    let found = folder.metadata().map_err(DiskError::io("look at", path))?;
    if found.mode() & STICKY != 0 || path.parent().is_none() {
        return Err(DiskError::Shared(path.to_owned()));
    }
    mine(&found, path)?;
    if found.mode() & EVERYBODY != 0 {
        return Err(DiskError::Writable(path.to_owned()));
    }
    Ok(Some((folder, found)))
}

/// Reads a private file; `None` where it isn't there. A mode wider than 0600 is narrowed before the first byte is read.
///
/// # Errors
/// A symbolic link, anything but a plain file of ours, a mode that can't be narrowed, more than `limit` bytes, the system's own.
pub fn read_private(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, DiskError> {
    // O_NONBLOCK: opening a pipe that lies there would wait for a writer for ever.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused_open(path, error)),
    };
    let found = file.metadata().map_err(DiskError::io("look at", path))?;
    if !found.is_file() {
        return Err(DiskError::NotAFile(path.to_owned()));
    }
    narrow(&file, &found, path, FILE_MODE)?;
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(DiskError::io("read", path))?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > limit) {
        return Err(DiskError::TooLong { path: path.to_owned(), limit });
    }
    Ok(Some(bytes))
}

/// Replaces a private file atomically: a reader sees the old content or the new one, after a crash too. The temporary file beside it has mode 0600
/// from its first moment. A symbolic link at `path` is replaced, not followed.
///
/// # Errors
/// The system's own; the old file stays as it was.
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    // The crate's own default would be 0666 less the umask, and the mode of the file that is replaced.
    let mut file = atomic_write_file::OpenOptions::new()
        .mode(FILE_MODE)
        .preserve_mode(false)
        .preserve_owner(false)
        .open(path)
        .map_err(DiskError::io("write beside", path))?;
    file.write_all(bytes).map_err(DiskError::io("write beside", path))?;
    file.commit().map_err(DiskError::io("replace", path))
}

/// Removes what a crash between the writing and the renaming left beside `path`: `.NAME.` and six letters or digits. Call it under the lock of
/// that file's writers, so that none of them is at work.
///
/// # Errors
/// Where the folder can't be listed or a file can't be removed.
pub fn sweep_leftovers(path: &Path) -> Result<(), DiskError> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Ok(());
    };
    let prefix = format!(".{name}.");
    for entry in std::fs::read_dir(folder).map_err(DiskError::io("list", folder))? {
        let entry = entry.map_err(DiskError::io("list", folder))?;
        let is_ours = entry
            .file_name()
            .to_str()
            .and_then(|name| name.strip_prefix(&prefix))
            .is_some_and(|rest| rest.len() == 6 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        if is_ours {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes a file; that it isn't there is fine. A symbolic link is removed itself.
///
/// # Errors
/// The system's own.
pub fn remove(path: &Path) -> Result<(), DiskError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(DiskError::io("remove", path)(error)),
        _ => Ok(()),
    }
}

/// A lock between processes, held until it is dropped. The system releases it when the process dies, so there are no stale ones. The file itself
/// stays: removing it would let two processes lock two files of one name.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

impl Lock {
    /// Takes the lock if nobody holds it. The file is created with mode 0600.
    ///
    /// # Errors
    /// Where the file can't be opened or its file system has no locks.
    pub fn try_acquire(path: &Path) -> Result<Option<Self>, DiskError> {
        loop {
            let file = open_lock(path)?;
            let found = file.metadata().map_err(DiskError::io("look at", path))?;
            if !found.is_file() {
                return Err(DiskError::NotAFile(path.to_owned()));
            }
            narrow(&file, &found, path, FILE_MODE)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(DiskError::io("lock", path)(error)),
            }
            // Somebody may have removed the file between the opening and the locking; then this lock would lock nothing.
            match std::fs::symlink_metadata(path) {
                Ok(now) if now.ino() == found.ino() && now.dev() == found.dev() => return Ok(Some(Self { file })),
                _ => {}
            }
        }
    }

    /// Takes the lock, blocking the thread for at most about `wait`. For locks that are held for the length of a file write.
    ///
    /// # Errors
    /// [`DiskError::Busy`] after the wait, else as [`Self::try_acquire`].
    pub fn within(path: &Path, wait: Duration) -> Result<Self, DiskError> {
        let mut left = wait;
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
            if left.is_zero() {
                return Err(DiskError::Busy(path.to_owned()));
            }
            std::thread::sleep(LOCK_PACE.min(left));
            left = left.saturating_sub(LOCK_PACE);
        }
    }

    /// Takes the lock, waiting for at most `wait` without blocking the thread. Dropping the future gives up; nothing stays locked.
    ///
    /// # Errors
    /// [`DiskError::Busy`] after the wait, else as [`Self::try_acquire`].
    pub async fn acquire(path: &Path, wait: Duration) -> Result<Self, DiskError> {
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            if let Some(lock) = Self::try_acquire(path)? {
                return Ok(lock);
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(DiskError::Busy(path.to_owned()));
            }
            tokio::time::sleep(LOCK_PACE).await;
        }
    }

    /// The locked file, for a note on who holds it.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Refuses what belongs to another user.
fn mine(found: &std::fs::Metadata, path: &Path) -> Result<(), DiskError> {
    if found.uid() == nix::unistd::geteuid().as_raw() { Ok(()) } else { Err(DiskError::ForeignOwner(path.to_owned())) }
}

/// Refuses what belongs to another user and takes away rights of the group and of others.
fn narrow(file: &File, found: &std::fs::Metadata, path: &Path, mode: u32) -> Result<(), DiskError> {
    mine(found, path)?;
    if found.mode() & OTHERS == 0 {
        return Ok(());
    }
    let narrowed = |source| DiskError::Narrow { path: path.to_owned(), source };
    // On the handle, not on the path: what was checked is what is narrowed.
    file.set_permissions(std::fs::Permissions::from_mode(mode)).map_err(narrowed)?;
    // Some file systems (a mounted FAT or network share) say yes and change nothing.
    if file.metadata().map_err(narrowed)?.mode() & OTHERS != 0 {
        return Err(narrowed(io::Error::other("the file system keeps no modes")));
    }
    tracing::warn!(path = %path.display(), "narrowed a mode that let others in");
    Ok(())
}

/// Opens a lock's file, creating it where it isn't there. In a folder that can't be written the file of an earlier time does: locking writes nothing.
fn open_lock(path: &Path) -> Result<File, DiskError> {
    let options = |write: bool| {
        let mut options = OpenOptions::new();
        options.read(true).write(write).create(write).truncate(false).mode(FILE_MODE);
        options.custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits());
        options
    };
    let opened = match options(true).open(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied) => {
            // The first error says more where there is no file either.
            options(false).open(path).map_err(|_| error)
        }
        opened => opened,
    };
    opened.map_err(|error| refused_open(path, error))
}

fn refused_open(path: &Path, error: io::Error) -> DiskError {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_symlink() => DiskError::Symlink(path.to_owned()),
        Ok(found) if !found.is_file() => DiskError::NotAFile(path.to_owned()),
        _ => DiskError::io("open", path)(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_new_folder_and_its_new_parents_are_the_users_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("a/b");
        private_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        assert_eq!(mode(&scratch.path().join("a")), 0o700);
    }

    #[test]
    fn a_folder_is_looked_at_without_a_change_and_one_that_cant_be_written_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("folder");
        assert_eq!(folder_mode(&folder).unwrap(), None);
        private_folder(&folder).unwrap();
        for seen in [0o700, 0o755] {
            set_mode(&folder, seen);
            assert_eq!(folder_mode(&folder).unwrap(), Some(seen));
            assert_eq!(mode(&folder), seen);
        }
        set_mode(&folder, 0o777);
        assert!(matches!(folder_mode(&folder), Err(DiskError::Writable(_))));
        set_mode(&folder, 0o500);
        // Root may write everywhere.
        let refused = matches!(folder_mode(&folder), Err(DiskError::Io { action: "write into", .. }));
        assert_eq!(refused, !nix::unistd::geteuid().is_root());
        set_mode(&folder, 0o700);
    }

    #[test]
    fn a_wider_folder_is_narrowed_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        for wide in [0o755, 0o775, 0o770, 0o701] {
            let folder = scratch.path().join(format!("{wide:o}"));
            std::fs::create_dir(&folder).unwrap();
            set_mode(&folder, wide);
            private_folder(&folder).unwrap();
            assert_eq!(mode(&folder), 0o700, "{wide:o}");
        }
    }

    #[test]
    fn a_linked_folder_a_file_and_a_shared_folder_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let real = scratch.path().join("real");
        std::fs::create_dir(&real).unwrap();
        set_mode(&real, 0o755);
        let link = scratch.path().join("link");
        symlink(&real, &link).unwrap();
        assert!(matches!(private_folder(&link), Err(DiskError::Symlink(_))));
        assert_eq!(mode(&real), 0o755, "what a link points at isn't touched");

        let file = scratch.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(matches!(private_folder(&file), Err(DiskError::NotAFolder(_))));

        let shared = scratch.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        set_mode(&shared, 0o1777);
        assert!(matches!(private_folder(&shared), Err(DiskError::Shared(_))));
        assert_eq!(mode(&shared), 0o1777);
        assert!(matches!(private_folder(Path::new("/")), Err(DiskError::Shared(_))));
        set_mode(&shared, 0o777);
        assert!(matches!(private_folder(&shared), Err(DiskError::Writable(_))));
        assert_eq!(mode(&shared), 0o777, "what others may have put there isn't made to look trustworthy");
    }

    #[test]
    fn something_of_another_user_is_refused() {
        // Only root can make a file of another user; elsewhere there is nothing to test with.
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("theirs");
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::chown(&folder, Some(12345), None).unwrap();
        assert!(matches!(private_folder(&folder), Err(DiskError::ForeignOwner(_))));
        let file = scratch.path().join("file");
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::chown(&file, Some(12345), None).unwrap();
        assert!(matches!(read_private(&file, 10), Err(DiskError::ForeignOwner(_))));
    }

    /// The kernel lets nobody change a mode under /proc, not even the owner or root.
    #[cfg(target_os = "linux")]
    #[test]
    fn a11_a_mode_that_cant_be_narrowed_is_an_error() {
        let refused = read_private(Path::new("/proc/self/status"), 1 << 20);
        assert!(matches!(refused, Err(DiskError::Narrow { .. })), "{refused:?}");
    }

    #[test]
    fn reading_follows_no_link_waits_for_no_pipe_and_is_bounded() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        assert!(read_private(&file, 10).unwrap().is_none());
        std::fs::write(&file, "0123456789").unwrap();
        set_mode(&file, 0o644);
        assert_eq!(read_private(&file, 10).unwrap().unwrap(), b"0123456789");
        assert_eq!(mode(&file), 0o600);
        assert!(matches!(read_private(&file, 9), Err(DiskError::TooLong { .. })));

        let link = scratch.path().join("link");
        symlink(&file, &link).unwrap();
        assert!(matches!(read_private(&link, 10), Err(DiskError::Symlink(_))));
        assert!(matches!(Lock::try_acquire(&link), Err(DiskError::Symlink(_))));
        let sentence = Lock::try_acquire(&link).unwrap_err().sentence();
        assert!(sentence.contains(link.to_str().unwrap()) && sentence.contains("符号链接，请"), "{sentence}");
        assert!(matches!(read_private(scratch.path(), 10), Err(DiskError::NotAFile(_))));
    }

    #[test]
    fn writing_replaces_a_link_and_leaves_what_it_points_at() {
        let scratch = tempfile::tempdir().unwrap();
        let target = scratch.path().join("target");
        std::fs::write(&target, "theirs").unwrap();
        let file = scratch.path().join("file");
        symlink(&target, &file).unwrap();
        write_private(&file, b"ours").unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"theirs");
        assert_eq!(std::fs::read(&file).unwrap(), b"ours");
        assert_eq!(mode(&file), 0o600);
    }

    #[test]
    fn only_leftovers_of_the_file_itself_are_swept() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("native-auth.json");
        let kept = ["native-auth.json", ".native-auth.json.long-name", ".posts.json.abcdef", "posts.json"];
        for name in kept.iter().chain(&[".native-auth.json.a1B2c3"]) {
            std::fs::write(scratch.path().join(name), "x").unwrap();
        }
        sweep_leftovers(&file).unwrap();
        for name in kept {
            assert!(scratch.path().join(name).exists(), "{name}");
        }
        assert!(!scratch.path().join(".native-auth.json.a1B2c3").exists());
    }

    #[test]
    fn a_lock_excludes_until_it_is_dropped() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("x.lock");
        let lock = Lock::try_acquire(&path).unwrap().unwrap();
        assert_eq!(mode(&path), 0o600);
        assert!(Lock::try_acquire(&path).unwrap().is_none());
        assert!(matches!(Lock::within(&path, Duration::ZERO), Err(DiskError::Busy(_))));
        drop(lock);
        assert!(Lock::within(&path, Duration::ZERO).is_ok());
    }
}
