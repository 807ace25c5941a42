//! The JSON Schemas of the contract: made from its types, committed under `schemas/`, and held against everything that tests send to a host.
//!
//! `UPDATE_SCHEMAS=1 cargo test --lib host::schemas` writes them anew.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use jsonschema::Validator;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

use super::wire;

/// The error of a response.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Error {
    /// The JSON-RPC code.
    code: i32,
    /// One sentence for a person, in Chinese.
    #[schemars(length(min = 1))]
    message: String,
    /// What a program goes by.
    data: wire::ErrorData,
}

/// Every schema, by the name of its file: `<method, with dots>.<params or result>`, `record`, `error`.
fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("error", sent::<Error>()),
        ("record", sent::<wire::Record>()),
        ("initialize.params", received::<wire::InitializeParams>()),
        ("initialize.result", sent::<wire::InitializeResult>()),
        ("shutdown.result", sent::<()>()),
        ("resource.status.result", sent::<wire::Status>()),
        ("resource.changed.params", sent::<wire::Status>()),
        ("resource.signIn.result", sent::<wire::SignInResult>()),
        ("resource.cancelSignIn.result", sent::<()>()),
        ("resource.signOut.result", sent::<()>()),
        ("records.list.result", sent::<wire::RecordsListResult>()),
        ("records.put.params", sent::<wire::RecordPut>()),
        ("records.withdrawn.params", sent::<wire::RecordWithdrawn>()),
        ("session.read.params", received::<wire::ReadParams>()),
        ("session.read.result", sent::<wire::ReadResult<'_>>()),
        ("session.post.params", received::<wire::PostParams>()),
        ("session.post.result", sent::<wire::PostResult>()),
        ("run.settled.params", sent::<wire::RunSettled>()),
        ("session.head.params", sent::<wire::HeadChanged>()),
        ("session.activity.params", sent::<wire::ActivityChanged>()),
        ("view.open.params", received::<wire::ViewOpenParams>()),
        ("view.open.result", sent::<wire::ViewOpenResult>()),
        ("protocols.remoteCode.params", sent::<wire::RemoteCodeParams>()),
        ("protocols.remoteCode.result", received::<wire::RemoteCodeResult>()),
    ]
}

fn sent<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn received<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn validator(name: &str) -> Option<&'static Validator> {
    static VALIDATORS: OnceLock<HashMap<&'static str, Validator>> = OnceLock::new();
    let validators = VALIDATORS.get_or_init(|| {
        let compile = |(name, schema): (_, Value)| (name, jsonschema::validator_for(&schema).expect("a schema"));
        all().into_iter().map(compile).collect()
    });
    validators.get(name)
}

/// Holds a value against a schema.
#[track_caller]
pub(super) fn assert_valid(name: &str, value: &Value) {
    let validator = validator(name).unwrap_or_else(|| panic!("no schema {name}"));
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:?} in {value}");
}

/// Holds everything that goes to a host against the schemas. Knows which method each response answers.
#[derive(Debug, Default)]
pub(super) struct Checker {
    /// Methods of requests that wait for their response, by the text of their id.
    waiting: HashMap<String, String>,
}

impl Checker {
    /// A request of the host is under way.
    #[track_caller]
    pub(super) fn asked(&mut self, id: &Value, method: &str) {
        let before = self.waiting.insert(id.to_string(), method.to_owned());
        assert!(before.is_none(), "the test used an id twice");
    }

    /// A text came from the session.
    #[track_caller]
    pub(super) fn check(&mut self, message: &Value) {
        assert_eq!(message["jsonrpc"], "2.0");
        if let Some(method) = message["method"].as_str() {
            assert_valid(&format!("{}.params", method.replace('/', ".")), &message["params"]);
        } else {
            let method = self.waiting.remove(&message["id"].to_string());
            match (message.get("result"), message.get("error"), method) {
                (Some(result), None, Some(method)) => {
                    assert_valid(&format!("{}.result", method.replace('/', ".")), result);
                }
                // Without a method: something whose id couldn't be read, or that the test sent as a bare text.
                (None, Some(error), _) => assert_valid("error", error),
                _ => panic!("a response to nothing, or a second one: {message}"),
            }
        }
    }
}

#[test]
fn schemas_are_those_of_the_types() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let update = std::env::var_os("UPDATE_SCHEMAS").is_some();
    let mut expected: Vec<String> = vec![];
    for (name, schema) in all() {
        let file = format!("{name}.json");
        let text = format!("{schema:#}\n");
        if update {
            std::fs::write(folder.join(&file), &text).unwrap();
        }
        let committed = std::fs::read_to_string(folder.join(&file)).unwrap_or_default();
        assert_eq!(committed, text, "{file} is old: run with UPDATE_SCHEMAS=1");
        expected.push(file);
    }
    let found = std::fs::read_dir(&folder).unwrap();
    let mut found: Vec<String> = found.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected, "files that are no schema of the contract");
}

/// `docs/host-contract.md` shows whole exchanges: `→` to the provider, `←` to the host.
#[test]
fn the_examples_of_the_document_hold_the_schemas() {
    let document = include_str!("../../docs/host-contract.md");
    let mut checker = Checker::default();
    // Our requests that wait for the host's response.
    let mut asking: HashMap<String, String> = HashMap::new();
    let mut seen: Vec<String> = vec![];
    for line in document.lines() {
        let Some((to_host, text)) =
            line.strip_prefix("← ").map(|text| (true, text)).or(line.strip_prefix("→ ").map(|text| (false, text)))
        else {
            continue;
        };
        let message: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {line}"));
        let (id, method) = (message["id"].to_string(), message["method"].as_str());
        seen.extend(method.map(str::to_owned));
        match (to_host, method) {
            (true, Some(method)) if message.get("id").is_some() => {
                checker.check(&message);
                asking.insert(id, method.to_owned());
            }
            (true, _) => checker.check(&message),
            (false, Some(method)) => {
                checker.asked(&message["id"], method);
                let name = format!("{}.params", method.replace('/', "."));
                if let Some(validator) = validator(&name) {
                    // An example of an error may still be well-formed: what is refused there is refused by its meaning.
                    assert!(validator.is_valid(&message["params"]), "{line}");
                }
            }
            (false, None) => {
                let method = asking.remove(&id).unwrap_or_else(|| panic!("a response to nothing: {line}"));
                assert_valid(&format!("{}.result", method.replace('/', ".")), &message["result"]);
            }
        }
    }
    // Whatever has a schema has an example.
    for (name, _) in all() {
        if let Some((method, _)) = name.rsplit_once('.') {
            let method = method.replace('.', "/");
            let quiet = ["resource/cancelSignIn", "resource/signOut"];
            assert!(seen.contains(&method) || quiet.contains(&method.as_str()), "no example of {method}");
        }
    }
    assert!(checker.waiting.is_empty() && asking.is_empty(), "an example without its answer");
}

#[test]
fn schemas_refuse_what_the_contract_refuses() {
    let record = |change: fn(&mut Value)| {
        let mut record = serde_json::json!({
            "id": "grok-bot:d:a", "protocol": "coda/session@1", "title": "t", "container": {"id": "c", "title": "t"},
            "participants": [{"id": "account:d", "name": "n", "kind": "person", "self": true}],
            "head": null, "actions": ["read", "post"], "views": ["bind"],
        });
        change(&mut record);
        validator("record").unwrap().is_valid(&record)
    };
    assert!(record(|_| {}));
    assert!(record(|record| record["head"] = "1:18446744073709551616".into()));
    for (change, why) in [
        ((|r| r["head"] = "1:02".into()) as fn(&mut Value), "a leading zero"),
        (|r| r["head"] = 5.into(), "a number for a cursor"),
        (|r| r["more"] = 1.into(), "an unknown field"),
        (|r| r["activity"] = Value::Null, "null for an absent field"),
        (|r| r["participants"][0]["self"] = false.into(), "self: false"),
        (|r| r["actions"] = serde_json::json!(["read", "cancel"]), "another action"),
        (|r| drop(r.as_object_mut().unwrap().remove("head")), "no head"),
    ] {
        assert!(!record(change), "{why} passes");
    }
    let settled = validator("run.settled.params").unwrap();
    let valid = |value: Value| settled.is_valid(&value);
    assert!(!valid(serde_json::json!({"run": "r", "state": "failed", "reason": "stopped", "message": "m"})));
    assert!(!valid(serde_json::json!({"run": "r", "state": "completed"})));
}
