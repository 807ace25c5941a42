//! What is refused, and the reason that a person reads.

use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::sync::{Arc, Mutex};

use coda_grok_bot::service::INDEX;
use coda_grok_bot::simulate::{Act, Fault, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::support::{Bench, kind, mode};

/// A place to which nothing should come. It keeps the beginning of what does, and hangs up.
struct Trap {
    address: SocketAddr,
    came: Arc<Mutex<Vec<Vec<u8>>>>,
    _task: JoinSet<()>,
}

impl Trap {
    async fn set() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, came) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (mut task, kept) = (JoinSet::new(), Arc::clone(&came));
        task.spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let mut bytes = vec![0; 512];
                let count = socket.read(&mut bytes).await.unwrap_or(0);
                bytes.truncate(count);
                kept.lock().unwrap().push(bytes);
            }
        });
        Self { address, came, _task: task }
    }

    fn came(&self) -> Vec<Vec<u8>> {
        self.came.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn no_redirect_is_followed_with_or_without_a_token() {
    let bench = Bench::new(Options { auto_confirm: Some(1), blob_above_bytes: 400, ..Options::default() }).await;
    let (trap, control, record) = (Trap::set().await, &bench.control, bench.record("a"));
    let redirect = |method: &str| {
        control.fault(Fault::next(method, Act::Redirect { to: format!("http://{}/elsewhere", trap.address) }));
    };
    bench.bot("a");
    let long = "很长的话。".repeat(200);
    control.say("a", "e1", &long).unwrap();
    let mut host = bench.serve().await;
    for method in ["auth/poll", "GetMe", "ListGrokBotAgents", "ListGrokBotTranscriptEntries", "sandbox-store"] {
        redirect(method);
    }
    redirect("WatchGrokBotTranscripts");
    host.call("resource/signIn", json!({})).await.unwrap();
    // Each is asked again, and then it works.
    host.reads_texts(&record, &[&long]).await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    redirect("oauth/token");
    control.expire_access_tokens(true);
    bench.until("a renewal", |control| control.count("oauth/token") == 2).await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    redirect("SendGrokBotUserMessage");
    assert_ne!(host.post(&record, "r1", "你好").await["state"], "completed");
    let host = host.quit().await;
    assert!(host.stderr().contains("a redirect that isn't followed"), "{}", host.stderr());

    redirect("GetMe");
    let ran = bench.run(&["status", "--json"]).await;
    assert_eq!((ran.code, &ran.json()[0]["reachable"]), (Some(0), &json!(false)), "{}", ran.stderr);
    assert_eq!(trap.came(), Vec::<Vec<u8>>::new());
}

#[tokio::test]
async fn an_address_that_isnt_allowed_is_named_before_anything_begins() {
    let bench = Bench::with_bot().await;
    for (address, says) in [
        ("http://example.test", "plain http is for loopback alone"),
        ("http://127.0.0.1.example.test:80", "plain http is for loopback alone"),
        ("https://example.test", "isn't a loopback address"),
        ("ws://127.0.0.1:1", "the scheme ws isn't https"),
        ("file:///etc/hostname", "the scheme file isn't https"),
        ("https://someone:sekrit@127.0.0.1:1", "a user name or a password"),
        ("https://127.0.0.1:1/?key=sekrit", "a query or a fragment"),
        ("nonsense", "not an address"),
    ] {
        for name in ["GROK_BOT_BACKEND_URL", "GROK_BOT_WEBSITE_URL"] {
            for args in [["serve"].as_slice(), &["status"], &["sign-in"], &["doctor"], &["preview"]] {
                let mut command = bench.command(args);
                command.env(name, address);
                let ran = bench.finish(command).await;
                assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{args:?} {address}: {}", ran.stderr);
                assert!(ran.stderr.contains(name) && ran.stderr.contains(says), "{address}: {}", ran.stderr);
                assert!(!ran.stderr.contains("sekrit"), "{}", ran.stderr);
            }
        }
    }
    assert_eq!(bench.control.counts().values().sum::<u64>(), 0, "nothing was asked");
}

/// A body of which the service says that it lies somewhere unlawful is left out; its neighbours are there, and the log has the reason.
#[tokio::test]
async fn a_stored_body_is_fetched_by_https_or_not_at_all() {
    for address in
        ["http://192.0.2.1/x?sig=sekrit", "ftp://127.0.0.1/x?sig=sekrit", "https://u:sekrit@192.0.2.1/x", "nonsense"]
    {
        let bench = Bench::new(Options { blob_above_bytes: 400, ..Options::default() }).await;
        let (control, record) = (&bench.control, bench.record("a"));
        bench.bot("a");
        bench.sign_in();
        control.say("a", "e1", &"很长的话。".repeat(200)).unwrap();
        control.say("a", "e2", "短").unwrap();
        let path = format!("blobs/{}", hash(&bench).await);
        let answer = json!({"instructions": [{"relPath": path, "url": address, "expiresAtMs": "99999999999999"}]});
        control.fault(Fault::next("PresignSandBoxStoreReads", Act::json(200, &answer)).always());
        let mut host = bench.serve().await;
        host.reads_texts(&record, &["短"]).await;
        let host = host.quit().await;
        assert_eq!(control.count("sandbox-store"), 0);
        let log = host.stderr();
        let reason =
            log.lines().find(|line| line.contains("stored body")).unwrap_or_else(|| panic!("{address}: {log}"));
        assert!(
            reason.contains("neither https nor http on loopback")
                || reason.contains("must have no")
                || reason.contains("not a URL"),
            "{reason}"
        );
        assert!(!log.contains("sekrit"), "{log}");
    }
}

/// The hash under which the body of Bot `a`'s first row is stored, asked for as a client does.
async fn hash(bench: &Bench) -> String {
    let document: Value = serde_json::from_slice(&std::fs::read(bench.auth_file()).unwrap()).unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let url = format!("{}/aiserver.v1.GrokBotService/ListGrokBotTranscriptEntries", bench.simulation.base_url());
    let request = client.post(url).bearer_auth(document["accessToken"].as_str().unwrap());
    let request = request.header("content-type", "application/json").body(json!({"agentId": "a"}).to_string());
    let answer: Value = serde_json::from_slice(&request.send().await.unwrap().bytes().await.unwrap()).unwrap();
    let hash = answer["entries"].as_array().unwrap().iter().find_map(|entry| entry["blobHash"].as_str());
    hash.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn a_folder_that_isnt_ours_alone_is_refused_with_a_reason() {
    for (what, says) in [
        ("link", "是符号链接"),
        ("writable", "任何人都能写入"),
        ("shared", "是多人共用的文件夹"),
        ("file", "不是文件夹"),
    ] {
        let bench = Bench::with_bot().await;
        let place = bench.data().with_file_name("place");
        let make = |mode| {
            std::fs::create_dir(&place).unwrap();
            std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        match what {
            "link" => symlink(bench.data(), &place).unwrap(),
            "writable" => make(0o777),
            "shared" => make(0o1777),
            _ => std::fs::write(&place, "x").unwrap(),
        }
        let folder = place.to_str().unwrap();
        for args in [
            ["serve"].as_slice(),
            &["preview"],
            &["sign-in"],
            &["sign-out"],
            &["status"],
            &["bots"],
            &["post", "a", "x"],
        ] {
            let ran = bench.run(&[args, &["--data-dir", folder]].concat()).await;
            assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{what} {args:?}: {}", ran.stderr);
            assert!(ran.stderr.contains(folder) && ran.stderr.contains(says), "{what} {args:?}: {}", ran.stderr);
        }
        let ran = bench.run(&["doctor", "--json", "--data-dir", folder]).await;
        assert_ne!(ran.code, Some(0), "{what}");
        let checks = ran.json()[0]["checks"].as_array().unwrap().clone();
        assert!(checks.iter().any(|check| check["name"] == "folder" && check["ok"] == false), "{what}: {checks:?}");
        match what {
            "writable" | "shared" => assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0, "nothing was put there"),
            _ => assert!(bench.auth_file().exists(), "what the link leads to is as it was"),
        }
    }
}

/// A file of ours that is a link is neither read nor written through.
#[tokio::test]
async fn a_link_or_a_folder_where_a_file_of_ours_belongs_is_named() {
    for what in ["link", "folder"] {
        let bench = Bench::with_bot().await;
        let record = bench.record("a");
        bench.control.say("a", "e1", "一").unwrap();
        let (index, elsewhere) = (bench.data().join(INDEX), bench.data().with_file_name("elsewhere"));
        std::fs::write(&elsewhere, "").unwrap();
        if what == "link" {
            symlink(&elsewhere, &index).unwrap();
        } else {
            std::fs::create_dir(&index).unwrap();
        }
        let mut host = bench.serve().await;
        host.until("it is named", |host| host.status["message"].as_str().is_some_and(|text| text.contains(INDEX)))
            .await;
        let message = host.status["message"].as_str().unwrap();
        assert!(message.contains("不是普通文件") && !message.contains("磁盘已满"), "{message}");
        assert_eq!(kind(&host.read(&record, json!({})).await), "not_ready");
        // Once it is away all goes on.
        if what == "link" { std::fs::remove_file(&index) } else { std::fs::remove_dir(&index) }.unwrap();
        host.reads_texts(&record, &["一"]).await;
        host.until("all is well", |host| host.status.get("message").is_none()).await;
        host.quit().await;
        assert_eq!((std::fs::read(&elsewhere).unwrap(), mode(&index)), (Vec::new(), 0o600));
    }
    // The lock of the folder.
    let bench = Bench::with_bot().await;
    let lock = std::fs::read_dir(bench.data()).unwrap().count();
    bench.serve_ready().await.quit().await;
    assert!(std::fs::read_dir(bench.data()).unwrap().count() > lock);
    let provider = bench.data().join("provider.lock");
    std::fs::remove_file(&provider).unwrap();
    symlink(bench.data().with_file_name("elsewhere"), &provider).unwrap();
    let mut host = bench.serve().await;
    assert_eq!(host.end().await.code(), Some(1));
    assert!(host.stderr().contains("provider.lock 是符号链接"), "{}", host.stderr());
    assert!(!bench.data().with_file_name("elsewhere").exists());
}

#[tokio::test]
async fn a_folder_named_like_a_set_aside_sign_in_is_in_nobodys_way() {
    let bench = Bench::with_bot().await;
    std::fs::create_dir(bench.data().join("native-auth.json.bad")).unwrap();
    let ran = bench.run(&["sign-out"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(!bench.auth_file().exists() && bench.data().join("native-auth.json.bad").is_dir());
}

/// With a proxy in the environment: loopback goes past it, by http and by https. (That https elsewhere goes through it is a test of `connect`, for
/// here no address but loopback is lawful.)
#[tokio::test]
async fn a_proxy_sees_nothing_of_loopback() {
    let bench = Bench::with_bot().await;
    let (proxy, secure) = (Trap::set().await, Trap::set().await);
    bench.control.say("a", "e1", "一").unwrap();
    let with_proxy = |args: &[&str]| {
        let mut command = bench.command(args);
        for name in ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"] {
            command.env(name, format!("http://{}", proxy.address));
            command.env(name.to_lowercase(), format!("http://{}", proxy.address));
        }
        command
    };
    let ran = bench.finish(with_proxy(&["read", "a", "--json"])).await;
    assert_eq!((ran.code, &ran.json()[0]["text"]), (Some(0), &json!("一")), "{}", ran.stderr);
    for host in ["127.0.0.1", "localhost"] {
        let mut command = with_proxy(&["status", "--json"]);
        command.env("GROK_BOT_BACKEND_URL", format!("https://{host}:{}", secure.address.port()));
        let ran = bench.finish(command).await;
        assert_eq!(ran.json()[0]["reachable"], false, "{}", ran.stderr);
    }
    assert_eq!(proxy.came(), Vec::<Vec<u8>>::new());
    let came = secure.came();
    // TLS from the first byte, and no word that could be read.
    assert!(came.len() >= 2 && came.iter().all(|bytes| bytes.first() == Some(&0x16)), "{came:?}");
}

/// The page of `preview`, asked by another page, by a name that was bent to loopback, and by whoever has no key.
#[tokio::test]
async fn another_origin_cant_reach_the_preview() {
    let bench = Bench::with_bot().await;
    bench.control.say("a", "e1", "只给自己看的话").unwrap();
    let mut child = bench.command(&["preview"]).spawn().unwrap();
    let mut output = tokio::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    let (port, key) = loop {
        line.clear();
        assert_ne!(tokio::io::AsyncBufReadExt::read_line(&mut output, &mut line).await.unwrap(), 0, "it ended");
        bench.heard().printed(&line);
        if let Some((_, link)) = line.split_once("http://127.0.0.1:") {
            let (port, key) = link.split_once("/#key=").unwrap();
            break (port.parse::<u16>().unwrap(), key.split_whitespace().next().unwrap().to_owned());
        }
    };
    let own = format!("http://127.0.0.1:{port}");
    let (host, bent) = (format!("127.0.0.1:{port}"), format!("rebound.example:{port}"));
    let ask = async |head: &str, path: &str, more: &str| {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let request = format!("{head} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n{more}\r\n");
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        let status: u16 = answer.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(!answer.to_lowercase().contains("access-control-allow"), "{answer}");
        assert!(!answer.contains(&key) && !answer.contains("只给自己看的话"), "{answer}");
        status
    };
    let socket = |host: &str, origin: &str, key: &str| {
        format!(
            "host: {host}\r\norigin: {origin}\r\nx-preview-key: {key}\r\nsec-websocket-version: 13\r\nupgrade: websocket\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: coda-grok-bot.host, key.{key}\r\n"
        )
    };
    for path in ["/", "/main.js", "/host", "/host/hello", "/host/qr"] {
        for verb in ["GET", "POST"] {
            for (host, origin) in
                [(&host, "http://evil.example"), (&host, "null"), (&bent, &format!("http://{bent}")), (&bent, &own)]
            {
                assert_eq!(ask(verb, path, &socket(host, origin, &key)).await, 403, "{verb} {path} {host} {origin}");
            }
        }
        assert_eq!(ask("OPTIONS", path, &format!("host: {host}\r\norigin: http://evil.example\r\n")).await, 403);
    }
    // Of this origin, without its key.
    let wrong = "0".repeat(64);
    for path in ["/host/hello", "/host/qr"] {
        assert_eq!(ask("POST", path, &socket(&host, &own, &wrong)).await, 403, "{path}");
    }
    assert_eq!(ask("GET", "/", &format!("host: {host}\r\n")).await, 200, "the page itself is no secret");
    child.kill().await.unwrap();
    let mut log = String::new();
    child.stderr.take().unwrap().read_to_string(&mut log).await.unwrap();
    assert!(!log.contains(&key), "{log}");
    bench.heard().log().lock().unwrap().push_str(&log);
}

/// A name with line breaks in it doesn't make lines of its own in the log.
#[tokio::test]
async fn a_hostile_id_stays_in_its_line() {
    let bench = Bench::new(Options::default()).await;
    let agent = "a\n2026-01-01T00:00:00.000000Z ERROR coda_grok_bot: forged\r\u{1b}[31m";
    bench.bot(agent);
    bench.sign_in();
    let mut host = bench.serve().await;
    host.until("its record", |host| host.records.len() == 1).await;
    bench.until("the stream", |control| control.open_streams() == 1).await;
    bench.control.turn_failed(agent, "IN\nTERNAL", "was\nnun");
    bench.control.clear(agent);
    bench.control.say(agent, "e1", "一").unwrap();
    let record = host.records.keys().next().unwrap().clone();
    host.reads_texts(&record, &["一"]).await;
    let host = host.quit().await;
    let log = host.stderr();
    assert!(log.contains("forged"), "it was named: {log}");
    assert!(!log.lines().any(|line| line.starts_with("2026-01-01T00:00:00.000000Z")), "{log}");
    assert!(!log.contains('\r') && !log.contains('\u{1b}'), "{log:?}");
}
