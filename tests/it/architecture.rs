//! Who may import whom. The folders under `src/` are rooms; the table is the direction in which the data flows, read from the bottom up.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Each room and the rooms that it names. No more than that: a leave that nobody uses invites somebody.
const MAY: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("clock", &["model"]),
    ("disk", &[]),
    ("platform", &[]),
    ("rpc", &[]),
    ("connect", &[]),
    ("config", &["clock", "disk", "model", "platform"]),
    ("auth", &["clock", "config", "connect", "disk", "model"]),
    ("upstream", &["connect", "model"]),
    ("mirror", &["model"]),
    ("index", &["mirror", "model"]),
    ("records", &["model"]),
    ("watch", &["auth", "index", "mirror", "model", "records", "upstream"]),
    ("host", &["model", "records", "rpc"]),
    ("simulate", &["clock"]),
    ("service", &["auth", "clock", "config", "connect", "host", "index", "records", "upstream", "watch"]),
    ("preview", &["clock", "disk", "host", "records"]),
    (
        "cli",
        &[
            "auth", "clock", "config", "disk", "host", "model", "platform", "preview", "records", "service",
            "simulate", "upstream",
        ],
    ),
];

/// Rooms that are pure: no I/O, no clock, no runtime, no wire.
const PURE: &[&str] = &["mirror", "model"];
/// What a pure room must not name.
const IMPURE: &[&str] = &[
    "tokio",
    "serde",
    "serde_json",
    "reqwest",
    "rusqlite",
    "tracing",
    "std::fs",
    "std::net",
    "std::io",
    "Instant::now",
    "SystemTime",
];

/// Longest file before its tests, in lines.
const LONGEST: usize = 600;

/// A source file without its tests.
struct Source {
    room: String,
    name: String,
    text: String,
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Where the tests of a file begin: at the first `#[cfg(test)]` before a module with a body.
fn before_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let module = lines.peek().is_some_and(|next| next.contains("mod ") && next.trim_end().ends_with('{'));
        if line.starts_with("#[cfg(test)]") && module {
            break;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// The files that exist under test only: those of modules declared below `#[cfg(test)]`.
fn test_files(path: &Path, text: &str) -> Vec<PathBuf> {
    let folder = match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("mod" | "lib" | "main") => path.parent().unwrap().to_owned(),
        _ => path.with_extension(""),
    };
    let lines: Vec<&str> = text.lines().collect();
    let declared = lines.windows(2).filter(|pair| pair[0].starts_with("#[cfg(test)]"));
    let names = declared.filter_map(|pair| pair[1].rsplit_once("mod ")?.1.strip_suffix(';'));
    names.flat_map(|name| [folder.join(format!("{name}.rs")), folder.join(name)]).collect()
}

/// All sources but tests.
fn sources() -> Vec<Source> {
    let root = source_folder();
    let mut paths = Vec::new();
    files(&root, &mut paths);
    let texts: Vec<(PathBuf, String)> =
        paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect();
    let tests: Vec<PathBuf> = texts.iter().flat_map(|(path, text)| test_files(path, text)).collect();
    let kept = texts.into_iter().filter(|(path, _)| !tests.iter().any(|test| path.starts_with(test)));
    let sources = kept.map(|(path, text)| {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let room = name.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        Source { room, name, text: before_tests(&text) }
    });
    sources.filter(|source| !["lib", "main"].contains(&source.room.as_str())).collect()
}

/// Lines of code: no comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The rooms that a text names: after `crate::`, also in a group.
fn named(text: &str) -> BTreeSet<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect::<String>();
    let mut rooms = BTreeSet::new();
    for (at, _) in text.match_indices("crate::") {
        // `coda_grok_bot::…` and `$crate::…` aren't imports of a room.
        let rest = &text[at + "crate::".len()..];
        let Some(group) = rest.strip_prefix('{') else {
            rooms.insert(word(rest));
            continue;
        };
        let (mut depth, mut start) = (1_usize, 0);
        for (place, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 1 => {
                    rooms.insert(word(group[start..place].trim_start()));
                    break;
                }
                '}' => depth -= 1,
                ',' if depth == 1 => {
                    rooms.insert(word(group[start..place].trim_start()));
                    start = place + 1;
                }
                _ => {}
            }
        }
    }
    rooms.remove("");
    rooms
}

#[test]
fn rooms_name_only_what_lies_below_them() {
    let may: BTreeMap<&str, &[&str]> = MAY.iter().copied().collect();
    let mut wrong = Vec::new();
    for source in sources() {
        let Some(allowed) = may.get(source.room.as_str()) else {
            wrong.push(format!("{}: its room isn't in the table", source.name));
            continue;
        };
        for room in named(&code(&source.text)) {
            if room != source.room && !allowed.contains(&room.as_str()) {
                wrong.push(format!("{} names {room}", source.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_table_allows_nothing_that_nobody_uses() {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        used.entry(source.room.clone()).or_default().extend(named(&code(&source.text)));
    }
    for (room, may) in MAY {
        let used = used.get(*room).unwrap_or_else(|| panic!("there is no room {room}"));
        let unused: Vec<_> = may.iter().filter(|other| !used.contains(**other)).collect();
        assert!(unused.is_empty(), "{room} doesn't name {unused:?}");
    }
}

#[test]
fn the_table_has_no_way_round() {
    // A room may only name what stands above it in the table: so nothing can come back to itself.
    let mut above: BTreeSet<&str> = BTreeSet::new();
    for (room, may) in MAY {
        let unknown: Vec<_> = may.iter().filter(|other| !above.contains(**other)).collect();
        assert!(unknown.is_empty(), "{room} may name {unknown:?}, which isn't above it");
        above.insert(room);
    }
    let may: BTreeMap<&str, &[&str]> = MAY.iter().copied().collect();
    assert!(!may["watch"].contains(&"host") && !may["host"].contains(&"watch"), "the loop and the contract never meet");
    assert!(may["simulate"].iter().all(|room| *room == "clock"), "the simulation shares no misunderstanding");
}

#[test]
fn pure_rooms_are_pure() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| PURE.contains(&source.room.as_str())) {
        let code = code(&source.text);
        for name in IMPURE {
            let used = code.contains(&format!("{name}::")) || code.contains(&format!("use {name}"));
            if used || (name.contains("::") && code.contains(name)) {
                wrong.push(format!("{} names {name}", source.name));
            }
        }
        if code.contains("async fn") {
            wrong.push(format!("{} waits", source.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn wire_types_stay_at_their_edge() {
    // Domain types have no serde: a change of a wire can't reach through to the mirror or to a host by accident.
    let wrong: Vec<String> = sources()
        .iter()
        .filter(|source| ["mirror", "model", "records", "watch", "index"].contains(&source.room.as_str()))
        .filter(|source| code(&source.text).contains("serde"))
        .map(|source| source.name.clone())
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn no_file_is_too_long_before_its_tests() {
    let long: Vec<String> = sources()
        .iter()
        .filter(|source| source.text.lines().count() > LONGEST)
        .map(|source| format!("{}: {}", source.name, source.text.lines().count()))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn the_reader_of_imports_reads_groups() {
    let text = "use crate::model::{A, B};\nuse crate::{clock, host::{self, x}, rpc};\nlet x = crate::disk::y();";
    let expected: BTreeSet<String> = ["model", "clock", "host", "rpc", "disk"].map(str::to_owned).into();
    assert_eq!(named(text), expected);
}
