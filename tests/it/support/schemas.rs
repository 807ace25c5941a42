//! The committed schemas, held against every line that the provider writes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::Value;

fn all() -> &'static HashMap<String, Validator> {
    static ALL: OnceLock<HashMap<String, Validator>> = OnceLock::new();
    ALL.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let compiled = files.map(|path| {
            let schema: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().trim_end_matches(".json").to_owned();
            (name, jsonschema::validator_for(&schema).unwrap())
        });
        compiled.collect()
    })
}

/// Holds a value against a committed schema.
pub(super) fn check(name: &str, value: &Value) {
    let validator = all().get(name).unwrap_or_else(|| panic!("there is no schema {name}: {value}"));
    let errors: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?} in {value:#}");
}
