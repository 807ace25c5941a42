//! The service's JSON as it is spelled (wire reference, sections 2 to 10), read so that one odd value stays one odd value.
//!
//! A [`Field`] never fails on a type: it says absent, odd, or what it is. Lists keep their elements raw, and each is read on its own. What the
//! fields mean is `convert`'s business.

#![expect(clippy::struct_field_names, reason = "the names are the wire's")]

use std::borrow::Cow;

use serde::de::MapAccess;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Serialize};

mod field;

use field::absent_or_odd;
pub(super) use field::{Field, Flag, FromJson, Kept, List, Long, Name, Number, Odd, PLENTY, Present, Said, Text};

/// The id of the entry that one replies to: a string, or an object that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> FromJson<'de> for Reply<'a> {
    fn from_text(text: Cow<'de, str>) -> Field<Self> {
        if text.is_empty() { Field::Absent } else { Field::Is(Self(text)) }
    }

    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Field<Self>, A::Error> {
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct Target<'a> {
            #[serde(borrow)]
            id: Text<'a>,
            #[serde(borrow)]
            entry_id: Text<'a>,
        }
        let target = Target::deserialize(MapAccessDeserializer::new(map))?;
        Ok(match target.id.is().filter(|id| !id.is_empty()).or(target.entry_id.is()) {
            Some(id) => Self::from_text(id),
            None => Field::Odd,
        })
    }
}

/// Rows read with the answer that holds them: nearly always all can be. Where that fails as a whole, they are a [`List`], and each is read on its own.
pub(super) type Listed<'a> = Field<Vec<Field<Row<'a, Long<'a>>>>>;

/// `ListGrokBotTranscriptEntries` (section 4).
#[derive(Deserialize, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Page<R> {
    pub(super) entries: R,
    pub(super) generation: Number,
}

/// Wire objects: all fields optional, unknown ones ignored.
macro_rules! objects {
    ($($(#[$doc:meta])* $name:ident<'a $(, $rows:ident)?> { $($(#[$attr:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Deserialize, Debug, Default)]
        #[serde(default, rename_all = "camelCase")]
        pub(super) struct $name<'a $(, $rows)?> {
            $($(#[$attr])* pub(super) $field: $type,)*
        }

        impl<'de: 'a, 'a $(, $rows: Deserialize<'de> + Default)?> FromJson<'de> for $name<'a $(, $rows)?> {
            fn from_text(text: Cow<'de, str>) -> Field<Self> {
                absent_or_odd(&text)
            }

            fn from_map<A: MapAccess<'de>>(map: A) -> Result<Field<Self>, A::Error> {
                Self::deserialize(MapAccessDeserializer::new(map)).map(Field::Is)
            }
        }
    )*};
}

objects! {
    /// `GetMe` (section 10).
    Me<'a> {
        #[serde(borrow)]
        user_id: Field<Name<'a>>,
        #[serde(borrow)]
        auth_id: Text<'a>,
        #[serde(borrow)]
        email: Text<'a>,
        #[serde(borrow)]
        first_name: Text<'a>,
        #[serde(borrow)]
        last_name: Text<'a>,
    }

    /// `ListGrokBotAgents` (section 3).
    Agents<'a> {
        #[serde(borrow)]
        agents: List<'a>,
    }

    /// `GrokBotAgent` (section 3).
    Agent<'a> {
        #[serde(borrow)]
        agent_id: Text<'a>,
        #[serde(borrow)]
        name: Text<'a>,
        #[serde(borrow)]
        harness: Text<'a>,
        #[serde(borrow)]
        kind: Field<Name<'a>>,
        #[serde(borrow)]
        visibility: Field<Name<'a>>,
        viewer_is_owner: Field<Said>,
    }

    /// `GrokBotTranscriptEntry` (section 7.1). The body is a [`Long`] text or any.
    Row<'a, B> {
        seq: Number,
        #[serde(borrow)]
        entry_kind: Text<'a>,
        body: B,
        #[serde(borrow)]
        blob_hash: Text<'a>,
        updated_seq: Number,
        #[serde(borrow)]
        entry_id: Text<'a>,
        body_omitted: Flag,
    }

    /// `deletes[]` of a `rows` frame (section 5.5).
    Delete<'a> {
        seq: Number,
        updated_seq: Number,
        #[serde(borrow)]
        entry_id: Text<'a>,
    }

    /// A stream frame: one of eleven cases (section 5.4). The cases that mean nothing here are only told apart from new ones.
    Frame<'a, R> {
        connected: Field<Connected>,
        #[serde(borrow, bound(deserialize = "R: Deserialize<'de> + Default"))]
        rows: Field<Rows<'a, R>>,
        #[serde(borrow)]
        cleared: Field<Reset<'a>>,
        #[serde(borrow)]
        cursor_too_old: Field<Reset<'a>>,
        heartbeat: Present,
        #[serde(borrow)]
        agent_state: Field<AgentState<'a>>,
        computer_actions: Present,
        agent_state_changed: Present,
        #[serde(borrow)]
        turn_failed: Field<TurnFailed<'a>>,
        roster_changed: Present,
        box_state: Present,
    }

    /// `rows` (section 5.5).
    Rows<'a, R> {
        #[serde(borrow)]
        agent_id: Text<'a>,
        generation: Number,
        entries: R,
        #[serde(borrow)]
        deletes: List<'a>,
        #[serde(borrow)]
        session_id: Text<'a>,
    }

    /// `cleared` and `cursorTooOld` (section 5.5): the first names its generation `newGeneration`.
    Reset<'a> {
        #[serde(borrow)]
        agent_id: Text<'a>,
        new_generation: Number,
        generation: Number,
        #[serde(borrow)]
        session_id: Text<'a>,
    }

    /// `agentState` (section 5.7).
    AgentState<'a> {
        #[serde(borrow)]
        live: List<'a>,
        snapshot: Flag,
    }

    /// `GrokBotAgentLiveState` (section 6.1).
    Live<'a> {
        #[serde(borrow)]
        agent_id: Text<'a>,
        is_running: Flag,
        is_composing_message: Flag,
        is_retrying: Flag,
        #[serde(borrow)]
        activity: Field<Activity<'a>>,
        awaiting: Present,
        #[serde(borrow)]
        session_id: Text<'a>,
    }

    /// `GrokBotAgentLiveActivity` (section 6.1).
    Activity<'a> {
        #[serde(borrow)]
        kind: Text<'a>,
        #[serde(borrow)]
        tool: Text<'a>,
        #[serde(borrow)]
        detail: Text<'a>,
    }

    /// `turnFailed` (section 5.7). One source reads `failureCode`.
    TurnFailed<'a> {
        #[serde(borrow)]
        agent_id: Text<'a>,
        #[serde(borrow)]
        session_id: Text<'a>,
        #[serde(borrow)]
        code: Field<Name<'a>>,
        #[serde(borrow)]
        failure_code: Field<Name<'a>>,
        #[serde(borrow)]
        summary: Text<'a>,
    }

    /// `SendGrokBotUserMessage` (section 9.1).
    Sent<'a> {
        dispatched: Flag,
        #[serde(borrow)]
        delivery: Field<Name<'a>>,
        #[serde(borrow)]
        refusal: Field<Refusal<'a>>,
    }

    /// `refusal` (section 9.1).
    Refusal<'a> {
        #[serde(borrow)]
        failure_code: Text<'a>,
    }

    /// `GetGrokBotSendStatus` (section 9.2).
    SendStatus<'a> {
        #[serde(borrow)]
        status: Field<Name<'a>>,
    }

    /// `RespondGrokBotWidget` (section 9.4).
    Responded<'a> {
        accepted: Flag,
        #[serde(borrow)]
        refusal: Field<Refusal<'a>>,
    }

    /// `PresignSandBoxStoreReads` (section 8).
    Presigned<'a> {
        #[serde(borrow)]
        instructions: List<'a>,
    }

    /// `instructions[]` (section 8).
    Instruction<'a> {
        #[serde(borrow)]
        rel_path: Text<'a>,
        #[serde(borrow)]
        url: Text<'a>,
    }

    /// The JSON inside a row's `body` (section 7.2 to 7.5).
    Body<'a> {
        #[serde(borrow)]
        id: Text<'a>,
        #[serde(borrow)]
        kind: Text<'a>,
        #[serde(borrow)]
        role: Text<'a>,
        content: Kept,
        timestamp_ms: Number,
        #[serde(borrow)]
        client_nonce: Text<'a>,
        from_agent: Present,
        to_agent: Present,
        author: Present,
        branched: Flag,
        #[serde(borrow)]
        reply_to_id: Field<Reply<'a>>,
        #[serde(borrow)]
        reply_to: Field<Reply<'a>>,
        #[serde(borrow)]
        responded_value: Text<'a>,
        widget_dismissed: Flag,
        widget_skipped: Flag,
        #[serde(borrow)]
        message: Field<Box<Message<'a>>>,
        #[serde(borrow)]
        name: Text<'a>,
        #[serde(borrow, rename = "file_name")]
        file_name_snake: Text<'a>,
        #[serde(borrow)]
        file_name: Text<'a>,
        #[serde(borrow, rename = "file_path")]
        file_path_snake: Text<'a>,
        #[serde(borrow)]
        file_path: Text<'a>,
        #[serde(borrow)]
        url: Text<'a>,
        #[serde(borrow)]
        path: Text<'a>,
        byte_size: Number,
    }

    /// `message` of a `send-message` (section 7.4), all types in one.
    Message<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
        content: Kept,
        #[serde(borrow)]
        images: List<'a>,
        #[serde(borrow)]
        widget: Field<Box<Widget<'a>>>,
        #[serde(borrow)]
        responded_value: Text<'a>,
        widget_dismissed: Flag,
        widget_skipped: Flag,
        #[serde(borrow)]
        reply_to_id: Field<Reply<'a>>,
        #[serde(borrow)]
        reply_to: Field<Reply<'a>>,
        #[serde(borrow)]
        name: Text<'a>,
        #[serde(borrow, rename = "file_name")]
        file_name_snake: Text<'a>,
        #[serde(borrow)]
        file_name: Text<'a>,
        #[serde(borrow, rename = "file_path")]
        file_path_snake: Text<'a>,
        #[serde(borrow)]
        file_path: Text<'a>,
        #[serde(borrow)]
        url: Text<'a>,
        #[serde(borrow)]
        path: Text<'a>,
        byte_size: Number,
        #[serde(borrow)]
        approval: Field<Box<Asked<'a>>>,
        #[serde(borrow)]
        ask: Field<Box<Asked<'a>>>,
        #[serde(borrow)]
        secret_request: Field<Box<Asked<'a>>>,
        #[serde(borrow)]
        connector: Field<Box<Asked<'a>>>,
        #[serde(borrow)]
        draft: Field<Box<Asked<'a>>>,
        #[serde(borrow)]
        form: Field<Box<Asked<'a>>>,
    }

    /// `images[]` of a text card.
    Image<'a> {
        #[serde(borrow)]
        url: Text<'a>,
        #[serde(borrow)]
        alt: Text<'a>,
    }

    /// `message.widget`.
    Widget<'a> {
        #[serde(borrow)]
        prompt: Text<'a>,
        #[serde(borrow)]
        help_text: Text<'a>,
        #[serde(borrow)]
        options: List<'a>,
    }

    /// `widget.options[]`.
    WidgetOption<'a> {
        #[serde(borrow)]
        label: Text<'a>,
        #[serde(borrow)]
        value: Text<'a>,
    }

    /// What a card that is handled in Grok Bot says of itself, whatever its type.
    Asked<'a> {
        #[serde(borrow)]
        summary: Text<'a>,
        #[serde(borrow)]
        action: Text<'a>,
        #[serde(borrow)]
        target: Field<Target<'a>>,
        #[serde(borrow)]
        label: Text<'a>,
        #[serde(borrow)]
        subject: Text<'a>,
        #[serde(borrow)]
        name: Text<'a>,
        #[serde(borrow)]
        title: Text<'a>,
    }
}

/// `connected` (section 5.5).
#[derive(Deserialize, Debug, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Connected {
    pub(super) server_time_ms: Number,
    pub(super) absolute_lifetime_ms: Number,
}

impl<'de> FromJson<'de> for Connected {
    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Field<Self>, A::Error> {
        Self::deserialize(MapAccessDeserializer::new(map)).map(Field::Is)
    }
}

/// `target` of a card: the text of a permission, or the object that says where a secret goes, of which the name is taken.
#[derive(Debug)]
pub(super) struct Target<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> FromJson<'de> for Target<'a> {
    fn from_text(text: Cow<'de, str>) -> Field<Self> {
        Field::Is(Self(text))
    }

    fn from_map<A: MapAccess<'de>>(map: A) -> Result<Field<Self>, A::Error> {
        #[derive(Deserialize, Default)]
        #[serde(default)]
        struct Named<'a> {
            #[serde(borrow)]
            name: Text<'a>,
        }
        let named = Named::deserialize(MapAccessDeserializer::new(map))?;
        Ok(named.name.is().map_or(Field::Odd, |name| Field::Is(Self(name))))
    }
}

/// `ListGrokBotTranscriptEntries` (section 4).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageRequest<'a> {
    pub(super) agent_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before_seq: Option<String>,
    pub(super) limit: u32,
}

/// `WatchGrokBotTranscripts` (section 5.1).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WatchRequest<'a> {
    pub(super) cursors: Vec<Cursor<'a>>,
    pub(super) include_unlisted_agents: bool,
    pub(super) inline_body_max_bytes: u32,
}

/// `cursors[]` of the watch request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cursor<'a> {
    pub(super) agent_id: &'a str,
    pub(super) generation: u64,
    pub(super) after_updated_seq: String,
    pub(super) session_id: &'static str,
}

/// `PresignSandBoxStoreReads` (section 8).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PresignRequest {
    pub(super) rel_paths: [String; 1],
}

/// `SendGrokBotUserMessage` (section 9.1).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SendRequest<'a> {
    pub(super) agent_id: &'a str,
    pub(super) message_id: &'a str,
    pub(super) text: &'a str,
    pub(super) sent_at_ms: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reply_to_id: Option<&'a str>,
    pub(super) source: &'static str,
    pub(super) session_id: &'static str,
}

/// `GetGrokBotSendStatus` (section 9.2).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusRequest<'a> {
    pub(super) agent_id: &'a str,
    pub(super) message_id: &'a str,
    pub(super) session_id: &'static str,
}

/// `RespondGrokBotWidget` (section 9.4). The default session is left out, as the official client does.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RespondRequest<'a> {
    pub(super) agent_id: &'a str,
    pub(super) entry_id: &'a str,
    pub(super) value: &'a str,
}
