//! Everything that differs between Linux and macOS.

use std::path::PathBuf;

use etcetera::BaseStrategy;

/// The name of the program's own folder inside the platform's data folder.
const OWN_FOLDER: &str = "coda-grok-bot";

/// The data folder where nothing else was said: `$XDG_DATA_HOME` or `~/.local/share` on Linux, `~/Library/Application Support` on macOS, and
/// `coda-grok-bot` in it. `None` where the home folder isn't known.
#[must_use]
pub fn data_folder() -> Option<PathBuf> {
    // The native strategy, not the base one: the latter would use XDG on macOS too.
    let strategy = etcetera::base_strategy::choose_native_strategy().ok()?;
    Some(strategy.data_dir().join(OWN_FOLDER))
}

/// This platform as the plugin's package names it: the operating system and the architecture in Node's words, `linux-x64` or `darwin-arm64`.
#[must_use]
pub fn plugin_platform() -> String {
    name(std::env::consts::OS, std::env::consts::ARCH)
}

/// Whether whoever started this process has it ignore that its terminal is closed, as `nohup` does. Only Linux tells it without `unsafe`; elsewhere
/// the signal counts.
#[must_use]
pub fn hangup_is_ignored() -> bool {
    if !cfg!(target_os = "linux") {
        return false;
    }
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status))
}

/// Reads `SigIgn`, a bit a signal in hexadecimal; the lowest is SIGHUP's.
fn ignores_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits & 1 == 1)
}

fn name(os: &str, arch: &str) -> String {
    let os = if os == "macos" { "darwin" } else { os };
    let arch = match arch {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("{os}-{arch}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_hangup_is_read_from_the_process_status() {
        for (line, ignored) in [("SigIgn:\t0000000000000001", true), ("SigIgn:\t0000000000001000", false), ("", false)]
        {
            assert_eq!(ignores_hangup(&format!("SigBlk:\t0000000000000001\n{line}\nSigCgt:\t1\n")), ignored, "{line}");
        }
    }

    #[test]
    fn the_platform_is_named_in_nodes_words() {
        assert_eq!(name("linux", "x86_64"), "linux-x64");
        assert_eq!(name("macos", "aarch64"), "darwin-arm64");
        assert_eq!(name("linux", "riscv64"), "linux-riscv64");
    }
}
