//! The sentences that a person reads on the resource page. Exact times are written `<t:ISO 8601 UTC>`; whoever shows them writes local time.

use chrono::{DateTime, SecondsFormat, Utc};

use crate::model::Wall;

pub(super) const CONFIRMING: &str = "请打开链接并确认登录；在手机上可能还要再点一次「继续」（Continue）。";
pub(super) const SIGN_IN_AGAIN: &str = "登录已失效，请重新登录；已读到的会话仍可查看。";
pub(super) const SIGN_IN_EXPIRED: &str = "登录链接已过期，请重新开始登录。";
pub(super) const SIGN_IN_POLICY: &str = "所在组织或设备的策略不允许这样登录，请换一个账号或联系管理员。";
pub(super) const SIGN_IN_REFUSED: &str = "登录被拒绝，请重新开始登录。";
pub(super) const SIGN_IN_STORE: &str = "登录信息无法写入数据目录，请检查磁盘空间与权限后重新登录。";
pub(super) const SIGN_OUT_FAILED: &str = "无法删除登录信息，请检查数据目录的权限后再退出登录。";
pub(super) const SET_ASIDE: &str = "索引文件已损坏并另存，改过的消息可能会再次显示为普通消息。";

pub(super) const IN_THE_WAY: &str =
    "数据目录里的 index.sqlite3 不是普通文件（是文件夹或符号链接），新消息暂不显示；请移走它，会自动继续。";

/// The service can't be reached.
pub(super) fn unreachable(since: Wall) -> String {
    format!("自 {} 起连不上 Grok Bot 服务，正在自动重试；请检查网络。", time(since))
}

/// The index can't be written.
pub(super) fn disk(since: Wall) -> String {
    format!("自 {} 起无法写入数据目录（磁盘已满或只读），新消息暂不显示；请腾出空间或检查权限。", time(since))
}

/// The account can't be asked for.
pub(super) fn no_account(since: Wall) -> String {
    format!("已登录，但自 {} 起取不到账号信息，正在自动重试；请检查网络。", time(since))
}

fn time(wall: Wall) -> String {
    let time = DateTime::<Utc>::from_timestamp_millis(wall.0).unwrap_or_default();
    format!("<t:{}>", time.to_rfc3339_opts(SecondsFormat::Millis, true))
}
