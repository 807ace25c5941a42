//! What the program is told from outside: the data folder, the addresses, the environment, put into one resolved struct.

mod address;
mod lock;

use std::ffi::OsString;
use std::path::PathBuf;

pub use address::{Address, AddressError, check_address};
pub use lock::{FolderLock, Holder, LockError};

use crate::disk::{self, DiskError};
use crate::platform;

/// Where the service's methods are, unless told otherwise.
const BACKEND: &str = "https://api2.cursor.sh";
/// Where the page for signing in is, unless told otherwise.
const WEBSITE: &str = "https://cursor.com";

/// The resolved configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// The data folder, absolute. Not created yet: see [`Config::create_data_dir`].
    pub data_dir: PathBuf,
    /// The service.
    pub backend: Address,
    /// The website with the page for signing in.
    pub website: Address,
    /// `GROK_BOT_TEST=1`: no address but loopback is lawful.
    pub test: bool,
}

/// What the command line or the caller says, stronger than the environment.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--data-dir`.
    pub data_dir: Option<PathBuf>,
    /// The service's address, for a caller that starts its own (the demo).
    pub backend: Option<String>,
    /// The website's address, likewise.
    pub website: Option<String>,
}

/// Why the configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// An address isn't lawful.
    #[error("{name}: {source}")]
    Address {
        /// The variable that names it.
        name: &'static str,
        /// What is wrong with it.
        source: AddressError,
    },
    /// Neither an option nor the environment names a data folder, and the home folder isn't known.
    #[error("no data folder: use --data-dir or CODA_PLUGIN_DATA")]
    NoDataFolder,
    /// The path of the data folder makes no sense.
    #[error("the data folder can't be used: {0}")]
    DataFolder(String),
}

impl Config {
    /// Resolves against the environment of this process.
    ///
    /// # Errors
    /// [`ConfigError`]. No socket was opened and no file touched.
    pub fn from_process(overrides: Overrides) -> Result<Self, ConfigError> {
        Self::resolve(overrides, |name| std::env::var_os(name))
    }

    /// Resolves against `env`. A variable that is set to nothing counts as unset.
    ///
    /// # Errors
    /// [`ConfigError`]. No socket was opened and no file touched.
    pub fn resolve(overrides: Overrides, env: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        let var = |name: &str| env(name).filter(|value| !value.is_empty());
        // Anything but an explicit no is a yes: the switch guards a real account against a test run.
        let test = var("GROK_BOT_TEST").is_some_and(|value| value != "0");
        let address = |name: &'static str, told: Option<String>, default: &str| {
            let text = match (told, var(name)) {
                (Some(told), _) => told,
                (None, Some(value)) => {
                    value.into_string().map_err(|_| ConfigError::Address { name, source: AddressError::Unreadable })?
                }
                (None, None) => default.to_owned(),
            };
            Address::parse(&text, test).map_err(|source| ConfigError::Address { name, source })
        };
        let backend = address("GROK_BOT_BACKEND_URL", overrides.backend, BACKEND)?;
        let website = address("GROK_BOT_WEBSITE_URL", overrides.website, WEBSITE)?;
        let data_dir = overrides
            .data_dir
            .filter(|path| !path.as_os_str().is_empty())
            .or_else(|| var("CODA_PLUGIN_DATA").map(PathBuf::from))
            .or_else(platform::data_folder)
            .ok_or(ConfigError::NoDataFolder)?;
        let data_dir = std::path::absolute(data_dir).map_err(|error| ConfigError::DataFolder(error.to_string()))?;
        Ok(Self { data_dir, backend, website, test })
    }

    /// Creates the data folder with mode 0700, or checks and narrows the one that is there.
    ///
    /// # Errors
    /// [`DiskError`]: a symbolic link, another user's or a shared folder, a mode that can't be narrowed.
    pub fn create_data_dir(&self) -> Result<(), DiskError> {
        disk::private_folder(&self.data_dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(overrides: Overrides, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::resolve(overrides, |name| env.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn the_defaults_are_the_real_service() {
        let config = resolve(Overrides::default(), &[]).unwrap();
        assert_eq!(config.backend.as_str(), "https://api2.cursor.sh/");
        assert_eq!(config.website.as_str(), "https://cursor.com/");
        assert!(!config.test);
        assert_eq!(Some(config.data_dir), platform::data_folder());
    }

    #[test]
    fn the_option_goes_before_the_environment_and_that_before_the_platform() {
        let env = [("CODA_PLUGIN_DATA", "/e"), ("GROK_BOT_BACKEND_URL", "http://127.0.0.1:1")];
        assert_eq!(resolve(Overrides::default(), &env).unwrap().data_dir, PathBuf::from("/e"));
        let told = Overrides { data_dir: Some("/d".into()), backend: Some("http://[::1]:2/x".into()), website: None };
        let config = resolve(told, &env).unwrap();
        assert_eq!(config.data_dir, PathBuf::from("/d"));
        assert_eq!(config.backend.as_str(), "http://[::1]:2/x");
        let empty = resolve(Overrides::default(), &[("GROK_BOT_BACKEND_URL", ""), ("CODA_PLUGIN_DATA", "")]).unwrap();
        assert_eq!(empty.backend.as_str(), "https://api2.cursor.sh/");
    }

    #[test]
    fn a23_a_test_run_refuses_the_real_service_before_a_socket_opens() {
        let error = resolve(Overrides::default(), &[("GROK_BOT_TEST", "1")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "GROK_BOT_BACKEND_URL: GROK_BOT_TEST is set, and https://api2.cursor.sh/ isn't a loopback address"
        );
        let one = [("GROK_BOT_TEST", "1"), ("GROK_BOT_BACKEND_URL", "http://127.0.0.1:9")];
        assert!(resolve(Overrides::default(), &one).unwrap_err().to_string().starts_with("GROK_BOT_WEBSITE_URL"));
        let both = [one[0], one[1], ("GROK_BOT_WEBSITE_URL", "https://localhost:9")];
        assert!(resolve(Overrides::default(), &both).unwrap().test);
    }

    #[test]
    fn a_bad_address_is_named_with_its_variable() {
        let error = resolve(Overrides::default(), &[("GROK_BOT_WEBSITE_URL", "http://example.com")]).unwrap_err();
        assert!(error.to_string().starts_with("GROK_BOT_WEBSITE_URL: "), "{error}");
    }
}
