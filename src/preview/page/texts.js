// Every text of the page in one place: Chinese, then English. What the provider says comes from the provider, in Chinese.

const TEXTS = {
  title: ["Grok Bot 预览", "Grok Bot preview"],
  skip: ["跳到写消息", "Skip to the composer"],
  demo: ["演示", "Demo"],
  demoHint: ["模拟的服务，里面的人和 Bot 都是虚构的", "A simulated service; everybody in it is made up"],
  language: ["English", "中文"],
  languageLabel: ["Switch to English", "切换到中文"],

  account: ["登录", "Sign-in"],
  signedOut: ["还没有登录", "Not signed in"],
  signedOutHint: ["登录后，每个 Bot 会自动成为一条会话。", "After signing in, every Bot becomes a conversation by itself."],
  signIn: ["登录 Grok", "Sign in to Grok"],
  signInAgain: ["重新登录", "Sign in again"],
  signOut: ["退出登录", "Sign out"],
  signOutSure: ["退出登录？本机上的登录凭据会被删除。", "Sign out? The credentials on this machine will be deleted."],
  confirming: ["等待确认登录", "Waiting for the confirmation"],
  confirmingHint: [
    "请在打开的页面里确认登录；如果是在手机上，可能还需要再点一次 Continue。",
    "Confirm the sign-in on the page that opens; a phone may ask to press Continue once more.",
  ],
  openLink: ["打开登录页面", "Open the sign-in page"],
  scan: ["或用手机扫码", "Or scan with a phone"],
  qrLabel: ["登录链接的二维码", "QR code of the sign-in link"],
  timeLeft: ["剩余 {0}", "{0} left"],
  cancel: ["取消", "Cancel"],
  signedInAs: ["已登录：{0}", "Signed in: {0}"],
  working: ["请稍候…", "One moment…"],

  bots: ["Bot", "Bots"],
  noBots: ["还没有 Bot。在 Grok 里创建后，会自动出现在这里。", "No Bots yet. Create one in Grok and it appears here by itself."],
  unread: ["{0} 条未读", "{0} unread"],
  bind: ["绑定", "Bind"],
  bindLabel: ["绑定 {0}", "Bind {0}"],
  back: ["返回", "Back"],
  pick: ["选择一个 Bot 开始聊天", "Pick a Bot to start"],

  conversation: ["与 {0} 的会话", "Conversation with {0}"],
  messages: ["消息", "Messages"],
  loadingHistory: ["正在读取…", "Reading…"],
  notReady: ["这个 Bot 的历史还在读取，马上就好…", "This Bot's history is still being read…"],
  empty: ["还没有消息，写第一句吧。", "No messages yet. Write the first one."],
  beginning: ["会话从这里开始", "The conversation begins here"],
  older: ["正在读取更早的消息…", "Reading older messages…"],
  readFailed: ["读取失败：{0}", "Can't read: {0}"],
  again: ["再试一次", "Try again"],
  toNewest: ["回到最新消息", "To the newest message"],
  newBelow: ["有新消息", "New messages"],
  you: ["我", "Me"],
  edited: ["已编辑", "Edited"],
  editedLabel: ["已编辑，查看 {0} 个更早的版本", "Edited, {0} earlier versions"],
  earlier: ["更早的版本", "Earlier versions"],
  deleted: ["此消息已删除", "This message was deleted"],
  unreadable: ["（没有文字）", "(no text)"],
  showAll: ["显示全文（{0}）", "Show all of it ({0})"],
  reply: ["回复", "Reply"],
  replyLabel: ["回复 {0}：{1}", "Reply to {0}: {1}"],
  replyTo: ["回复 {0}：{1}", "Replying to {0}: {1}"],
  answers: ["回复 {0}：{1}", "In reply to {0}: {1}"],
  answersUnknown: ["回复一条这里没有的消息", "In reply to a message that isn't here"],
  noReply: ["不再回复", "Don't reply"],
  options: ["选项", "Options"],
  chosen: ["已选择：{0}", "Chosen: {0}"],
  choosing: ["正在提交…", "Sending…"],
  picture: ["图片", "Picture"],
  turnFailed: ["这一轮没有完成：{0}", "This turn failed: {0}"],
  today: ["今天", "Today"],
  yesterday: ["昨天", "Yesterday"],
  said: ["{0} 说：{1}", "{0}: {1}"],

  write: ["写消息", "Write a message"],
  writeTo: ["发消息给 {0}", "Message {0}"],
  writeHint: ["Enter 发送，Shift+Enter 换行", "Enter sends, Shift+Enter breaks the line"],
  send: ["发送", "Send"],
  tooLong: ["消息超过 200 KiB，请缩短后再发。", "Over 200 KiB: please shorten it."],
  notConnected: ["连接断开了，恢复后再发；内容已保留。", "The connection is down; your text is kept."],
  sending: ["发送中", "Sending"],
  sent: ["已发送", "Sent"],
  failed: ["没有发出", "Not sent"],
  unknown: ["不确定是否发出", "Not sure if sent"],
  unknownHint: [
    "这条消息可能已经发出，也可能没有；不会自动重发。请看一下会话里有没有它，再决定要不要再发一次。",
    "It may have been sent or not, and is not sent again by itself. Look whether the conversation has it before you send it again.",
  ],
  sendAgain: ["再发一次", "Send again"],
  dismiss: ["知道了", "Dismiss"],

  bindTitle: ["绑定 {0} 的电脑", "Bind the computer of {0}"],
  binding: ["正在发绑定指令…", "Sending the bind command…"],
  bindUnsure: ["连接断开，无法确认绑定指令是否已经发出；不会自动重发。", "The connection broke: nobody can be sure that it was sent. It isn't sent again."],
  bindDemo: [
    "演示里没有真正的云电脑：在这台电脑的 remote 文件夹里运行会话中的那行命令，就会真的绑定，工具返回示例数据。",
    "The demo has no cloud computer: run the line from the conversation in this machine's remote folder. It really binds, and the tools answer with sample data.",
  ],
  close: ["关闭", "Close"],
  noRemote: ["预览页没有 Coda 的远端入口。", "The preview page has no remote entry of Coda."],

  connecting: ["正在连接…", "Connecting…"],
  lost: ["连接断开，正在重新连接…", "Connection lost, reconnecting…"],
  connected: ["连接已恢复。", "The connection is back."],
  restarted: ["插件重新启动过，已恢复。", "The plugin was restarted; everything is back."],
  historyReset: ["「{0}」的历史已被重置，已重新读取。", "The history of {0} was reset and read anew."],
  wrongKey: ["这个链接已失效：请打开终端里新打印的链接。", "This link is no longer valid: open the one that the terminal printed."],
  noKey: ["链接不完整：请打开终端里打印的整个链接。", "The link is incomplete: open the whole link that the terminal printed."],
  withdrawnDeleted: ["「{0}」已被删除。", "{0} was deleted."],
  withdrawnAccount: ["已切换账号，原来的会话已撤下。", "Another account: the earlier conversations are gone."],
  noScript: ["这个页面需要 JavaScript。", "This page needs JavaScript."],
};

const KEY = "coda-grok-bot.language";
let column = stored() === "en" ? 1 : 0;

function stored() {
  try {
    return globalThis.localStorage?.getItem(KEY);
  } catch {
    return null; // Storage may be forbidden; Chinese it is.
  }
}

/** The text, with `{0}`, `{1}` filled in. */
export function t(name, ...values) {
  return TEXTS[name][column].replace(/\{(\d)\}/g, (_, place) => values[Number(place)]);
}

/** For `lang` and for formatting dates. */
export function language() {
  return column === 1 ? "en" : "zh-CN";
}

/** The other language, remembered. The page is drawn anew by its caller. */
export function switchLanguage() {
  column = 1 - column;
  try {
    localStorage.setItem(KEY, column === 1 ? "en" : "zh");
  } catch {
    // Not remembered, then.
  }
}
