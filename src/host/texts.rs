//! Every sentence that a person sees through the host, in one place: what is the matter, and what to do.

use crate::records::Failure;

/// The button on the resource page.
pub const BIND_BUTTON: &str = "绑定";
/// The view's answer.
pub const BIND_SENT: &str = "已发给 Bot";
/// The first line of the message that binds; the command follows on a line of its own.
pub const BIND_LINE: &str = "请在保存 coda-bot.mjs 的文件夹里运行下一行命令，把这台电脑绑定到 Coda；如果没有这个文件，请先按 SKILL.md 说的取得它。";
/// A Bot without a name.
pub const UNNAMED_BOT: &str = "未命名 Bot";

/// The resource page while a link waits.
pub const CONFIRMING: &str = "请在打开的页面里确认登录；如果是在手机上，可能还需要再点一次 Continue。";
/// The resource page when renewal failed for good.
pub const SIGN_IN_AGAIN: &str = "登录已失效，请重新登录；已有的记录仍可阅读。";

/// `not_initialized`.
pub const NOT_INITIALIZED: &str = "还没有初始化，请先发送 initialize。";
/// A second `initialize`.
pub const INITIALIZED_ALREADY: &str = "已经初始化过了，initialize 只能发送一次。";
/// Another protocol version.
pub const VERSION: &str = "不支持这个协议版本：需要 5.7.0 或更高的 5.x，请更新 Coda 或改用合适的插件版本。";
/// After `shutdown`.
pub const STOPPING: &str = "插件正在停止，不再接受新的请求。";
/// Not JSON.
pub const PARSE_ERROR: &str = "收到的内容不是有效的 JSON。";
/// Not JSON-RPC.
pub const INVALID_REQUEST: &str = "收到的内容不是有效的 JSON-RPC 2.0 消息。";
/// A batch.
pub const BATCH: &str = "不支持批量请求，请逐条发送。";
/// A line over the limit.
pub const TOO_LONG: &str = "收到的消息超过 8 MiB，已跳过。";
/// `-32601`.
pub const UNKNOWN_METHOD: &str = "不支持这个方法。";
/// A fault of ours, or a loop that doesn't answer.
pub const INTERNAL: &str = "插件没有及时完成这个请求，请稍后再试。";

/// `bad_params` without more to say.
pub const BAD_PARAMS: &str = "请求的参数不正确。";
/// Both bounds.
pub const BOTH_BOUNDS: &str = "after 和 before 不能同时使用。";
/// A limit outside its range.
pub const LIMIT: &str = "limit 必须是 1 到 500 之间的整数。";
/// `bad_cursor`.
pub const BAD_CURSOR: &str = "游标的格式不正确，应为「代次:序号」。";
/// `record_not_found`.
pub const RECORD_NOT_FOUND: &str = "找不到这条记录：Bot 可能已被删除，或当前登录的是另一个账号。";
/// `not_ready`.
pub const NOT_READY: &str = "这个 Bot 的历史还在读取，请稍后再试。";
/// `history_reset`.
pub const HISTORY_RESET: &str = "这个 Bot 的历史已被重置，请从头重新读取。";
/// `text_only`.
pub const TEXT_ONLY: &str = "只能发送文字，请去掉附件后再发。";
/// A text without a visible character.
pub const BLANK: &str = "消息是空的，请先写点内容。";
/// A text over the limit.
pub const TEXT_TOO_LONG: &str = "消息超过 200 KiB，请缩短后再发。";
/// A reply to nothing.
pub const UNKNOWN_REPLY: &str = "找不到要回复的消息，请刷新后再试。";

/// A `view/open` while nobody is signed in.
pub const BIND_SIGNED_OUT: &str = "还没有登录 Grok，请先在资源页登录。";
/// The host gave no code in time, or an error.
pub const REMOTE_UNAVAILABLE: &str = "没有拿到绑定码，什么也没有发送；请确认 Coda 已连接 tailnet，然后再试。";
/// No address.
pub const NO_TAILNET: &str = "Coda 没有连接 tailnet，什么也没有发送；请先连接，然后再试。";
/// An address or a code that doesn't belong on a command line.
pub const REMOTE_MALFORMED: &str = "Coda 给出的地址或绑定码格式不正确，什么也没有发送；请更新 Coda 后再试。";
/// Too many openings at once.
pub const TOO_MANY_OPENINGS: &str = "同时打开的绑定太多，什么也没有发送；请稍后再试。";
/// The service refused the message.
pub const BIND_REFUSED: &str = "Grok 拒绝了这条绑定指令，请在 Grok Bot 里查看这个 Bot 的状态。";
/// Nobody can be sure.
pub const SEND_UNCONFIRMED: &str =
    "无法确认绑定指令是否已经发出，不会自动重发；请看一下这个 Bot 的会话，需要时再点一次「绑定」。";

/// Why a sign-in couldn't be begun.
#[must_use]
pub fn sign_in_failed(reason: &str) -> String {
    format!("没能开始登录，请稍后再试：{reason}")
}

/// Why the tokens couldn't be deleted.
#[must_use]
pub fn sign_out_failed(reason: &str) -> String {
    format!("没能退出登录，请稍后再试：{reason}")
}

/// The message of a failed run.
#[must_use]
pub fn failure(failure: Failure) -> &'static str {
    match failure {
        Failure::Unknown => "无法确认消息是否已经发出，不会自动重发；请看一下会话，需要时再发一次。",
        Failure::Refused => "Grok 拒绝了这条消息，没有发出。",
        Failure::SignedOut => "没有登录 Grok，消息没有发出；请在资源页登录后再发。",
        Failure::NotSent => "消息没有发出，可以再发一次。",
        Failure::WidgetClosed => "这个问题已经不能回答了，没有发出。",
    }
}
