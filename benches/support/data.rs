//! What every measurement is made of: texts in Chinese and English mixed, and ids; the same bytes for the same arguments on every machine.

/// The generation of every transcript here.
pub(crate) const GENERATION: u64 = 3;

/// What people and Bots say. Line breaks, quotes and emoji are in it, because real texts have them and JSON writes them with escapes.
const PIECES: &[&str] = &[
    "构建已经通过了，三个服务都正常，响应时间稳定在一百二十毫秒左右。",
    "请先看一下昨天晚上的日志，我怀疑连接池在高峰时被耗尽了。",
    "好的，我先把测试跑一遍，再把结果整理成一张表发给你。",
    "这个问题和上周的那个很像：缓存没有失效，所以旧的数据一直在。\n",
    "如果没有别的意见，我今天下午就合并这个分支。✅ ",
    "The build is green; I re-ran the flaky test twenty times and it never failed. ",
    "I'd rather keep the old name: \"session\" is what everybody calls it already. ",
    "Let me check the metrics first, then decide whether we need a bigger machine. ",
    "\n- `cargo build --release` takes four minutes on CI\n- `npm ci` takes thirty seconds\n",
    "Deploy 到 staging 之后 p99 从 310 ms 降到 95 ms，CPU 用量也少了三分之一。",
    "下一步：check the index, 然后 rebuild，最后再 run 一次 smoke test。",
    "\n```rust\nfn main() {\n    println!(\"hello\");\n}\n```\n",
    "See https://example.test/runs/4711 for details. 🦀 ",
];

/// A small generator of numbers (splitmix64): the same everywhere.
#[derive(Clone, Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of the numbers below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }
}

/// A text of between half and one and a half times `average` bytes.
pub(crate) fn text(rng: &mut Rng, average: usize) -> String {
    let mut length = average / 2 + rng.below(average + 1);
    let mut text = String::with_capacity(length + 128);
    while text.len() < length {
        text.push_str(PIECES[rng.below(PIECES.len())]);
    }
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    text.truncate(length);
    text
}

/// An id as the wire has them.
pub(crate) fn uuid(rng: &mut Rng) -> String {
    let (a, b) = (rng.next(), rng.next());
    let (one, two, three) = (a >> 32, (a >> 16) & 0xffff, a & 0x0fff);
    let (four, five) = (0x8000 | ((b >> 48) & 0x3fff), b & 0xffff_ffff_ffff);
    format!("{one:08x}-{two:04x}-4{three:03x}-{four:04x}-{five:012x}")
}

/// The agent id of a Bot.
pub(crate) fn agent(bot: usize) -> String {
    uuid(&mut Rng(0xB07 + bot as u64))
}
