// The page as a host of the contract: connects, and hands what comes to whoever shows it.

import { BotsView } from "./bots-view.js";
import { openBind } from "./bind-view.js";
import { ConversationView } from "./conversation-view.js";
import { h, plainName } from "./dom.js";
import { Link } from "./link.js";
import { Notices } from "./notices.js";
import { Posts } from "./posts.js";
import { ResourceView } from "./resource-view.js";
import { Roster } from "./roster.js";
import { RpcError } from "./rpc.js";
import { language, switchLanguage, t } from "./texts.js";

/** A conversation and the list don't fit side by side. */
const narrow = matchMedia("(max-width: 46rem)");

class App {
  constructor(key) {
    this.request = (method, params) => this.link.request(method, params);
    this.notices = new Notices();
    this.posts = new Posts({ storage: sessionStorage, onChange: (record) => this.conversation.postsChanged(record) });
    this.roster = new Roster({ request: this.request, storage: localStorage, onChange: (id) => this.recordChanged(id) });
    this.resource = new ResourceView({
      request: this.request,
      qr: async (text) => (await this.link.ask("/host/qr", { text })).rows,
      tell: (text) => this.notices.tell(text),
    });
    this.bots = new BotsView({ onOpen: (id) => this.open(id), onBind: (id) => this.bind(id) });
    this.demo = false;
    this.settled = false;
    this.leaving = false;
    this.drawing = false;
    this.conversation = new ConversationView({
      request: this.request,
      posts: this.posts,
      notices: this.notices,
      isConnected: () => this.link.peer !== null,
      onSeen: (record, cursor) => this.roster.markSeen(record, cursor),
      onBack: () => this.leave(),
      onBind: (id) => this.bind(id),
    });
    this.link = new Link({
      key,
      openRuns: () => this.posts.openRuns(),
      onOpen: (peer, how) => this.connected(how),
      onClose: () => this.notices.stand(t("lost")),
      onRefused: () => this.notices.stand(t("wrongKey"), "bad"),
      onUnreachable: () => this.notices.stand(t("lost")),
      onNotification: (method, params) => this.notified(method, params),
      onRequest: (method, params) => this.asked(method, params),
    });
    this.build();
    addEventListener("popstate", () => this.showList());
  }

  build() {
    document.documentElement.lang = language();
    document.title = t("title");
    const toOther = () => {
      switchLanguage();
      location.reload();
    };
    this.badge = h("span", { class: "badge", title: t("demoHint"), hidden: true }, t("demo"));
    this.pick = h("p", { class: "pick hint", hidden: true }, t("pick"));
    const skip = h("a", { class: "skip", href: "#composer-text" }, t("skip"));
    // Following it would replace the key in the address.
    skip.addEventListener("click", (event) => {
      event.preventDefault();
      this.conversation.composer.text.focus();
    });
    document.body.replaceChildren(
      skip,
      h(
        "header",
        { class: "top" },
        h("h1", null, t("title")),
        this.badge,
        h("button", { type: "button", class: "quiet", "aria-label": t("languageLabel"), onclick: toOther }, t("language")),
      ),
      this.notices.element,
      h(
        "div",
        { class: "columns" },
        h("aside", { class: "side" }, this.resource.element, this.bots.element),
        h("main", null, this.pick, this.conversation.element),
      ),
      this.notices.heard,
    );
  }

  async connected({ first, restarted, hello }) {
    this.demo = hello.demo;
    this.badge.hidden = !hello.demo;
    this.notices.stand("");
    if (!first) this.notices.tell(restarted ? t("restarted") : t("connected"));
    // Before anything of the new connection is read; what is open goes on where it was.
    this.conversation.reader?.reconnected();
    try {
      // The two are held until the provider has its folder; what it tells meanwhile comes as it comes.
      const [status, { records }] = await Promise.all([this.request("resource/status"), this.request("records/list")]);
      this.settled = true;
      this.resource.set(status);
      this.roster.replace(records, !restarted || status.state === "signedOut");
    } catch (error) {
      // A lost connection is told already; a folder that another provider holds is a reason to read.
      if (error instanceof RpcError) this.notices.tell(error.message);
    }
  }

  notified(method, params) {
    switch (method) {
      case "resource/changed":
        this.resource.set(params);
        this.recordChanged(null);
        break;
      case "records/put":
        this.roster.put(params.record);
        break;
      case "records/withdrawn":
        this.withdrawn(params);
        break;
      case "session/head":
        this.roster.headMoved(params.record, params.head);
        if (params.record === this.conversation.record?.id) this.conversation.reader.headMoved(params.head);
        break;
      case "session/activity":
        this.roster.setActivity(params.record, params.activity, params._meta?.["grok-bot"]?.turnFailed);
        break;
      case "run/settled":
        this.posts.settled(params);
        break;
      default: // A newer provider's.
    }
  }

  /** Requests of the provider to its host. */
  async asked(method, { record }) {
    if (method !== "protocols/remoteCode") throw new RpcError({ code: -32601, message: method });
    if (!this.demo) {
      throw new RpcError({ code: -32012, message: t("noRemote"), data: { kind: "remote_unavailable" } });
    }
    return this.link.ask("/host/remote-code", { record });
  }

  withdrawn({ record, reason }) {
    const row = this.roster.withdraw(record);
    if (row === undefined) return;
    if (reason === "deleted") this.notices.tell(t("withdrawnDeleted", plainName(row.title)));
    if (reason === "account") this.notices.tell(t("withdrawnAccount"));
  }

  recordChanged(id) {
    const open = this.conversation?.record;
    const row = open && this.roster.records.get(open.id);
    if (open && !row) this.leave();
    if (row && (id === null || id === open.id)) this.conversation.update(row);
    // A hundred changes at once are drawn once.
    if (this.drawing) return;
    this.drawing = true;
    queueMicrotask(() => {
      this.drawing = false;
      this.drawBots();
    });
  }

  drawBots() {
    const status = this.resource.status?.state;
    const settled = this.settled && (status === "signedIn" || status === "signInAgain");
    const nobody = !settled && this.roster.records.size === 0;
    this.bots.element.hidden = nobody;
    this.pick.hidden = nobody || this.roster.open !== null;
    this.bots.set(this.roster.records, this.roster.open, settled);
  }

  open(id) {
    const record = this.roster.records.get(id);
    if (narrow.matches && this.roster.open === null) history.pushState({ conversation: true }, "");
    this.roster.open = id;
    document.body.classList.add("reading");
    this.conversation.open(record);
    this.recordChanged(null);
    // On a phone the keyboard would cover what was opened.
    (narrow.matches ? this.conversation.title : this.conversation.composer.text).focus();
  }

  /** Back to the list. */
  leave() {
    // The list is one step back in the history, where opening put it there. A step back is taken later, and must be taken once.
    if (this.leaving) return;
    this.leaving = history.state?.conversation === true;
    if (this.leaving) history.back();
    else this.showList();
  }

  showList() {
    this.leaving = false;
    const { open } = this.roster;
    if (open === null) return;
    this.roster.open = null;
    this.conversation.close();
    document.body.classList.remove("reading");
    this.drawBots();
    this.bots.rows.get(open)?.choose.focus();
  }

  bind(id) {
    const { title } = this.roster.records.get(id);
    openBind({ request: this.request, record: id, title, demo: this.demo });
  }

  start() {
    // A reload begins at the list, wherever it was.
    history.replaceState(null, "");
    this.notices.stand(t("connecting"), "calm");
    this.link.connect();
  }
}

const key = new URLSearchParams(location.hash.slice(1)).get("key");
if (key === null) {
  document.documentElement.lang = language();
  document.body.replaceChildren(h("main", { class: "alone" }, h("h1", null, t("title")), h("p", { role: "alert" }, t("noKey"))));
} else {
  new App(key).start();
}
