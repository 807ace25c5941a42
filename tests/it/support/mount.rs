//! A small file system of a test's own.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use tokio::process::Command;

/// A small file system under the data folder's place.
pub(crate) struct Mounted(pub(crate) PathBuf);

impl Mounted {
    /// `None` where this machine doesn't let us.
    pub(crate) async fn over(path: &Path, size: &str) -> Option<Self> {
        let options = format!("size={size},mode=0700");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(path).output().await;
        mount.is_ok_and(|output| output.status.success()).then(|| Self(path.to_owned()))
    }

    /// `ro` or `rw`; nothing may be open for writing.
    pub(crate) async fn remount(&self, how: &str) {
        let options = format!("remount,{how}");
        let output = Command::new("mount").args(["-o", &options]).arg(&self.0).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a provider that a failed test leaves behind may still have files open.
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

/// Writes until nothing fits any more.
pub(crate) fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    for size in [4096, 64, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
}
