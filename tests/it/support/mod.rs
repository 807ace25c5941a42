//! The built binary against the simulated service, and a host that talks with it.

mod host;
mod judge;
mod ledger;
mod mount;
mod running;
mod schemas;
mod talk;

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use coda_grok_bot::simulate::{Control, NewBot, Options, Simulation};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::process::Command;

pub(crate) use host::{Host, cursor, kind, texts};
pub(crate) use judge::{Heard, check_shape, search};
pub(crate) use ledger::{Ledger, fixed};
pub(crate) use mount::{Mounted, fill};
pub(crate) use running::Running;
pub(crate) use talk::Talk;

/// Far more than anything here takes; a test that reaches it hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// The userId of the simulation's account.
const USER: &str = "1001";

/// A simulated service, and a data folder for providers of the real binary.
pub(crate) struct Bench {
    /// Ends with the bench.
    pub(crate) simulation: Simulation,
    /// Steers it.
    pub(crate) control: Control,
    folder: TempDir,
    /// What its processes printed.
    heard: Heard,
    /// Whether the run is judged at its end.
    pub(crate) judged: bool,
}

/// How a command ended.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// The JSON values of stdout, one a line.
    pub(crate) fn json(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Bench {
    /// Nobody is signed in, and there are no Bots.
    pub(crate) async fn new(options: Options) -> Self {
        let simulation = Simulation::start(options).await.unwrap();
        let control = simulation.control();
        let folder = tempfile::tempdir().unwrap();
        std::fs::DirBuilder::new().mode(0o700).create(folder.path().join("data")).unwrap();
        Self { simulation, control, folder, heard: Heard::default(), judged: true }
    }

    /// Signed in, with one Bot `a`.
    pub(crate) async fn with_bot() -> Self {
        let bench = Self::new(Options::default()).await;
        bench.bot("a");
        bench.sign_in();
        bench
    }

    /// Adds a Bot whose id and name are the same.
    pub(crate) fn bot(&self, id: &str) {
        self.control.add_bot(NewBot::named(id).id(id));
    }

    /// Writes a sign-in of the present account, as another process would have.
    pub(crate) fn sign_in(&self) {
        let pair = self.control.issue_tokens();
        let document = json!({"accessToken": pair.access, "refreshToken": pair.refresh});
        write_private(&self.auth_file(), document.to_string().as_bytes());
    }

    /// The data folder.
    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn auth_file(&self) -> PathBuf {
        self.data().join("native-auth.json")
    }

    /// The record of a Bot whose id needs no encoding.
    #[expect(clippy::unused_self, reason = "it is this bench's account")]
    pub(crate) fn record(&self, agent: &str) -> String {
        format!("grok-bot:{}:{agent}", digest(USER))
    }

    /// The binary with the addresses of this service and this folder.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = bare(args);
        command
            .env("GROK_BOT_BACKEND_URL", self.simulation.base_url())
            .env("GROK_BOT_WEBSITE_URL", self.simulation.website_url())
            .env("CODA_PLUGIN_DATA", self.data());
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        self.finish(self.command(args)).await
    }

    /// Runs a command of this bench to its end.
    pub(crate) async fn finish(&self, command: Command) -> Ran {
        let ran = finish(command).await;
        self.heard.printed(&ran.stdout);
        self.heard.log().lock().unwrap().push_str(&ran.stderr);
        ran
    }

    /// A provider over stdio, before `initialize`.
    pub(crate) fn spawn(&self) -> Host {
        Host::spawn(self.command(&["serve", "--log", "debug"]), self.heard())
    }

    /// A provider over stdio, greeted.
    pub(crate) async fn serve(&self) -> Host {
        let mut host = self.spawn();
        host.initialize().await;
        host
    }

    /// A provider whose record of Bot `a` can be read.
    pub(crate) async fn serve_ready(&self) -> Host {
        let mut host = self.serve().await;
        host.ready(&self.record("a")).await;
        host
    }

    /// Waits until something holds in the simulation.
    pub(crate) async fn until(&self, what: &str, done: impl FnMut(&Control) -> bool) {
        let waited = tokio::time::timeout(LIMIT, self.control.until(done)).await;
        assert!(waited.is_ok(), "in the simulation: {what}; asked so far: {:?}", self.control.counts());
    }

    /// What its processes printed, for one that is started apart.
    pub(crate) fn heard(&self) -> Heard {
        self.heard.clone()
    }
}

/// The binary, under test and with nothing of this process's environment that could lead it elsewhere.
pub(crate) fn bare(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coda-grok-bot"));
    for name in ["RUST_LOG", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(name);
    }
    for name in ["GROK_BOT_BACKEND_URL", "GROK_BOT_WEBSITE_URL", "CODA_PLUGIN_DATA"] {
        command.env_remove(name);
    }
    command.env("GROK_BOT_TEST", "1").env("TZ", "UTC").args(args).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a command to its end.
pub(crate) async fn finish(mut command: Command) -> Ran {
    let output = tokio::time::timeout(LIMIT, command.output()).await.expect("the command ends in time").unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    check_shape(&stdout);
    check_shape(&stderr);
    Ran { code: output.status.code(), stdout, stderr }
}

/// Lower-case hex SHA-256.
pub(crate) fn digest(text: &str) -> String {
    let hex = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).unwrap());
    Sha256::digest(text.as_bytes()).iter().flat_map(hex).collect()
}

/// Writes a file of mode 0600, replacing one atomically.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    let _ = std::fs::remove_file(&new);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    std::fs::rename(&new, path).unwrap();
}

/// The permission bits of a path.
pub(crate) fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Sends a signal to a process of ours.
pub(crate) async fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().await.unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}
