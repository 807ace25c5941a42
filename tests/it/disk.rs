//! A disk that is full, a folder that can't be written, an index that is no index.

use coda_grok_bot::service::INDEX;
use serde_json::json;

use crate::support::{Bench, Host, Mounted, fill, mode, texts};

#[tokio::test]
async fn a_full_disk_is_said_once_and_nothing_is_exposed_that_isnt_recorded() {
    let bench = Bench::new(coda_grok_bot::simulate::Options::default()).await;
    bench.bot("a");
    let Some(mounted) = Mounted::over(&bench.data(), "1m").await else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    bench.sign_in();
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "一").unwrap();
    let mut host = bench.serve_ready().await;
    host.reads_texts(&record, &["一"]).await;
    let filler = mounted.0.join("filler");
    fill(&filler);
    for number in 2..=200 {
        control.say("a", &format!("e{number}"), &format!("第 {number} 句")).unwrap();
    }
    host.until("the disk is named", |host| {
        host.status["message"].as_str().is_some_and(|message| message.contains("磁盘"))
    })
    .await;
    assert_eq!(host.status["state"], "signedIn");
    // What was there is still served, what came is not.
    host.reads_texts(&record, &["一"]).await;
    assert_eq!(host.head(&record).as_deref(), Some("1:1"));
    let said = host.stderr().lines().filter(|line| line.contains("ERROR")).count();
    assert_eq!(said, 1, "{}", host.stderr());
    let told = host.log.iter().filter(|message| message["params"]["message"].is_string()).count();
    assert_eq!(told, 1);
    std::fs::remove_file(&filler).unwrap();
    let messages = host.reads(&record, "all", |messages| messages.len() == 200).await;
    assert_eq!(texts(&messages)[199], "第 200 句");
    host.until("all is well again", |host| host.status.get("message").is_none()).await;
    let before = messages;
    host.quit().await;
    let mut host = bench.serve_ready().await;
    let again = host.reads(&record, "all", |messages| messages.len() == 200).await;
    assert_eq!(again, before);
    host.quit().await;
}

#[tokio::test]
async fn a_read_only_folder_is_said_in_one_sentence() {
    let bench = Bench::new(coda_grok_bot::simulate::Options::default()).await;
    bench.bot("a");
    let Some(mounted) = Mounted::over(&bench.data(), "1m").await else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    bench.sign_in();
    let record = bench.record("a");
    bench.control.say("a", "e1", "一").unwrap();
    // Once as it should be, so that there is something to serve.
    bench.serve_ready().await.quit().await;
    mounted.remount("ro").await;
    let mut host = bench.serve().await;
    host.until("a record", |host| host.records.contains_key(&record)).await;
    host.until("the folder is named", |host| {
        host.status["message"].as_str().is_some_and(|message| message.contains("只读"))
    })
    .await;
    let told = host.log.iter().filter(|message| message["params"]["message"].is_string()).count();
    assert_eq!(told, 1);
    host.quit().await;
    // The commands take no lock and keep their index in memory: they work.
    let ran = bench.run(&["read", "a", "--json"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.json()[0]["text"], "一");
}

#[tokio::test]
async fn a_corrupt_index_is_set_aside_with_a_warning() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "一").unwrap();
    let host = bench.serve_ready().await;
    host.quit().await;
    let index = bench.data().join(INDEX);
    std::fs::write(&index, vec![0x5a; 8192]).unwrap();
    for tail in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(bench.data().join(format!("{INDEX}{tail}")));
    }
    control.resay("a", "e1", "一，改过").unwrap();
    let mut host = bench.serve_ready().await;
    // The edited message shows as a plain one, as the warning says.
    let messages = host.reads_texts(&record, &["一，改过"]).await;
    assert_eq!((&messages[0]["id"], messages[0].get("about")), (&json!("1:e1"), None));
    host.until("the warning", |host| {
        host.status["message"].as_str().is_some_and(|message| message.contains("索引文件已损坏"))
    })
    .await;
    let aside: Vec<_> = std::fs::read_dir(bench.data())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".bad-"))
        .collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(std::fs::read(&aside[0]).unwrap(), vec![0x5a; 8192]);
    assert_eq!(mode(&index), 0o600);
    host.quit().await;
}

#[tokio::test]
async fn an_index_that_another_process_holds_is_waited_for_and_not_set_aside() {
    let bench = Bench::with_bot().await;
    let control = &bench.control;
    let record = bench.record("a");
    control.say("a", "e1", "一").unwrap();
    let mut host = bench.serve_ready().await;
    host.reads_texts(&record, &["一"]).await;
    let holder = rusqlite::Connection::open(bench.data().join(INDEX)).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    control.say("a", "e2", "二").unwrap();
    host.until("the disk is named", |host| host.status["message"].is_string()).await;
    host.reads_texts(&record, &["一"]).await;
    holder.execute_batch("ROLLBACK").unwrap();
    host.reads_texts(&record, &["一", "二"]).await;
    host.until("all is well again", |host| host.status.get("message").is_none()).await;
    host.quit().await;
    let aside = std::fs::read_dir(bench.data())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".bad-"));
    assert_eq!(aside.count(), 0);
}

#[tokio::test]
async fn a_file_of_the_old_plugin_goes_on_working_and_its_posts_are_left_alone() {
    let bench = Bench::with_bot().await;
    let posts = bench.data().join("posts.json");
    std::fs::write(&posts, b"{\"old\":true}").unwrap();
    let mut document: serde_json::Value = serde_json::from_slice(&std::fs::read(bench.auth_file()).unwrap()).unwrap();
    document["userId"] = json!("1001");
    document["authId"] = json!("auth0|user_SIMULATED0001");
    document["somethingElse"] = json!({"kept": [1, 2]});
    crate::support::write_private(&bench.auth_file(), document.to_string().as_bytes());
    // Its mode was wider: narrowed at once.
    std::fs::set_permissions(bench.auth_file(), std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let mut host: Host = bench.serve_ready().await;
    assert_eq!(mode(&bench.auth_file()), 0o600);
    bench.control.expire_access_tokens(true);
    bench.until("a renewal", |control| control.count("oauth/token") == 1 && control.opened_streams() >= 2).await;
    let renewed: serde_json::Value = serde_json::from_slice(&std::fs::read(bench.auth_file()).unwrap()).unwrap();
    assert_ne!(renewed["accessToken"], document["accessToken"]);
    assert_eq!(renewed["somethingElse"], document["somethingElse"]);
    host.call("records/list", json!({})).await.unwrap();
    host.quit().await;
    assert_eq!(std::fs::read(&posts).unwrap(), b"{\"old\":true}");
}
