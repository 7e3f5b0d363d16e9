//! Profiles as data, for the feature `serde`: a form of its own, so that a profile that was written
//! can be read by later versions, and what is worked out from the events is not written. Used by
//! programs, through serde, on a profile that is theirs.
//!
//! Names are static texts, so those of a profile that is read are interned, as names that are made
//! of a `String` are.

#![forbid(unsafe_code)]

use crate::device::Context;
use crate::error::Stamp;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::profile::device_span::DeviceSpan;
use crate::profile::recorder::{Event, Use, VariablesNamed};
use crate::profile::Profile;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The version of the form. A change that older readers would misunderstand steps it.
const VERSION: u32 = 1;

type NameText = Cow<'static, str>;

#[derive(Serialize, Deserialize)]
struct RecordedProfile {
    version: u32,
    /// By the system's number.
    threads: BTreeMap<u32, NameText>,
    variables: Vec<RecordedName>,
    lost: u64,
    events: Vec<RecordedEvent>,
}

/// The name of a variable.
#[derive(Serialize, Deserialize)]
struct RecordedName {
    index: u32,
    before: u32,
    name: NameText,
}

/// A use: `before` is how many variables had this index before.
#[derive(Serialize, Deserialize)]
struct RecordedUse {
    index: u32,
    before: u32,
    writes: bool,
}

#[derive(Serialize, Deserialize)]
struct RecordedEvent {
    name: NameText,
    property: Property,
    asynchronous: bool,
    context: Context,
    priority: i32,
    worker: Option<usize>,
    pushed_on: u32,
    started_on: u32,
    ended_on: u32,
    push: u64,
    ready: u64,
    start: u64,
    end: u64,
    replay: Option<Stamp>,
    uses: Vec<RecordedUse>,
    device: Option<DeviceSpan>,
}

impl From<&Event> for RecordedEvent {
    fn from(event: &Event) -> RecordedEvent {
        let used = |used: &Use| {
            let (index, before) = used.variable();
            RecordedUse { index, before, writes: used.writes() }
        };
        RecordedEvent {
            name: NameText::Borrowed(event.name),
            property: event.property,
            asynchronous: event.asynchronous,
            context: event.context,
            priority: event.priority,
            worker: event.worker,
            pushed_on: event.pushed_on,
            started_on: event.started_on,
            ended_on: event.ended_on,
            push: event.push,
            ready: event.ready,
            start: event.start,
            end: event.end,
            replay: event.replay,
            uses: event.uses().iter().map(used).collect(),
            device: event.device().copied(),
        }
    }
}

impl RecordedEvent {
    /// The event, if its times are such as events have.
    fn event(self) -> Result<Event, String> {
        if self.end < self.start || self.device.is_some_and(|span| span.end < span.start) {
            return Err(format!("the event '{}' ends before it starts", self.name));
        }
        let replay = (self.replay.unwrap_or(Stamp::LAST), self.push);
        let what = (text(self.name), self.property, self.context);
        let mut event = Event::of_replay(replay, what, self.asynchronous, (self.start, self.started_on, self.worker));
        (event.priority, event.replay) = (self.priority, self.replay);
        (event.pushed_on, event.ended_on) = (self.pushed_on, self.ended_on);
        (event.ready, event.end) = (self.ready, self.end);
        // The generation in which the variable lives.
        let used = |used: RecordedUse| Use::new(used.index, (used.before << 1).wrapping_add(1), used.writes);
        Ok(event.completed(self.uses.into_iter().map(used), self.device))
    }
}

fn text(text: NameText) -> &'static str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(text) => Name::from(text).as_str(),
    }
}

impl Serialize for Profile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = |((index, before), name): (&(u32, u32), &&'static str)| RecordedName {
            index: *index,
            before: *before,
            name: NameText::Borrowed(name),
        };
        RecordedProfile {
            version: VERSION,
            threads: self.threads.iter().map(|(number, name)| (*number, NameText::Borrowed(name))).collect(),
            variables: self.names.iter().map(name).collect(),
            lost: self.lost,
            events: self.events.iter().map(RecordedEvent::from).collect(),
        }
        .serialize(serializer)
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RecordedEvent::from(self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Profile, D::Error> {
        let recorded = RecordedProfile::deserialize(deserializer)?;
        if recorded.version != VERSION {
            let message = format!(
                "it is a profile of version {}, and this one reads version {VERSION}: use the library that has written it",
                recorded.version
            );
            return Err(D::Error::custom(message));
        }
        let events: Result<Vec<Event>, String> = recorded.events.into_iter().map(RecordedEvent::event).collect();
        let mut events = events.map_err(D::Error::custom)?;
        events.sort_by_key(|event| event.end);
        let threads = recorded.threads.into_iter().map(|(number, name)| (number, text(name))).collect();
        let name = |named: RecordedName| ((named.index, named.before), text(named.name));
        let names: VariablesNamed = recorded.variables.into_iter().map(name).collect();
        Ok(Profile::new(events, threads, names, recorded.lost))
    }
}
