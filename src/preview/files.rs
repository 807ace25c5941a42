//! The page's files, in the binary.

/// A file of the page.
#[derive(Debug)]
pub(super) struct File {
    /// Its path, without the leading slash.
    pub(super) path: &'static str,
    /// Its content type.
    pub(super) kind: &'static str,
    /// What is in it.
    pub(super) content: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

macro_rules! files {
    ($($path:literal: $kind:expr,)*) => {
        &[$(File { path: $path, kind: $kind, content: include_str!(concat!("page/", $path)) },)*]
    };
}

/// All of them.
pub(super) const FILES: &[File] = files! {
    "index.html": HTML,
    "style.css": CSS,
    "icon.svg": SVG,
    "bind-view.js": JS,
    "bots-view.js": JS,
    "composer.js": JS,
    "conversation-view.js": JS,
    "conversation.js": JS,
    "cursor.js": JS,
    "dialog.js": JS,
    "dom.js": JS,
    "entry-view.js": JS,
    "link.js": JS,
    "main.js": JS,
    "markdown.js": JS,
    "notices.js": JS,
    "posts.js": JS,
    "reader.js": JS,
    "resource-view.js": JS,
    "roster.js": JS,
    "rpc.js": JS,
    "texts.js": JS,
    "virtual.js": JS,
    "when.js": JS,
    "vendor/dompurify.js": JS,
    "vendor/dompurify.LICENSE.txt": TEXT,
    "vendor/marked.js": JS,
    "vendor/marked.LICENSE.txt": TEXT,
};

/// The file at a path of a request.
pub(super) fn find(path: &str) -> Option<&'static File> {
    let path = match path.strip_prefix('/')? {
        "" => "index.html",
        path => path,
    };
    FILES.iter().find(|file| file.path == path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn on_disk(folder: &Path, under: &Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                on_disk(&path, under, found);
            } else {
                found.push(path.strip_prefix(under).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_in_the_binary() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/preview/page");
        let mut there = Vec::new();
        on_disk(&folder, &folder, &mut there);
        there.sort();
        let mut here: Vec<&str> = FILES.iter().map(|file| file.path).collect();
        here.sort_unstable();
        assert_eq!(here, there);
    }

    #[test]
    fn nothing_beside_the_page_is_served() {
        for path in ["/../mod.rs", "/page/main.js", "/vendor/", "//main.js", "main.js", "/main.js/"] {
            assert!(find(path).is_none(), "{path}");
        }
        assert_eq!(find("/").unwrap().path, "index.html");
    }
}
