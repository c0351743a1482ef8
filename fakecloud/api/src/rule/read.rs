//! Reads rules field by field, in the new and the old spelling, so that an error has the position of its field.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use mcm_api::cloud::Code;
use serde::de::{DeserializeSeed, Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serializer};

use super::old::{self, Effect};
use super::{At, FaultRule, Partial, Stale};
use crate::AnyCall;

const RULE: [&str; 3] = ["name", "match", "action"];
const MATCH: [&str; 10] = [
    "call",
    "machine",
    "class",
    "zone",
    "client",
    "skip",
    "times",
    "probability",
    "window",
    "throttle",
];
const ACTION: [&str; 12] = [
    "code",
    "error",
    "message",
    "latency",
    "at",
    "lostReply",
    "effectDelay",
    "stuck",
    "partial",
    "stale",
    "lie",
    "nameless",
];

/// Reads the fields of a rule one after the other.
///
/// A field with an old and a new spelling may be given in only one of them.
#[derive(Debug)]
pub struct RuleReader<L, D> {
    rule: FaultRule<L, D>,
    /// The paths of the fields so far, each as it was spelled.
    given: BTreeMap<&'static str, String>,
}

impl<L, D> Default for RuleReader<L, D> {
    fn default() -> Self {
        Self {
            rule: FaultRule::new(""),
            given: BTreeMap::new(),
        }
    }
}

impl<'de, L: Deserialize<'de>, D: Deserialize<'de>> RuleReader<L, D> {
    /// Reads the value of the rule's field `key`.
    ///
    /// # Errors
    /// The field does not exist, its value is invalid, or it was given in another spelling.
    pub fn read<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "name" => {
                self.claim("name", key)?;
                self.rule.name = map.next_value()?;
            }
            "match" => map.next_value_seed(Section {
                name: "match",
                fields: &MATCH,
                reader: self,
            })?,
            "action" => map.next_value_seed(Section {
                name: "action",
                fields: &ACTION,
                reader: self,
            })?,
            old::EFFECT => {
                let effect = map.next_value::<Effect<D>>()?;
                self.set_effect(effect)?;
            }
            old::EFFECT_BEFORE_ERROR | old::AFTER_EFFECT => {
                self.claim("action.at", key)?;
                if map.next_value::<bool>()? {
                    self.rule.action.at = At::AfterCommit;
                }
            }
            old => {
                let path = old::path(old).ok_or_else(|| A::Error::unknown_field(old, &RULE))?;
                self.claim(path, old)?;
                self.read_value(path, map)?;
            }
        }
        Ok(())
    }

    /// Records that the field with that path is given as `spelled`.
    ///
    /// # Errors
    /// It was given before.
    pub fn claim<E: Error>(&mut self, path: &'static str, spelled: &str) -> Result<(), E> {
        let Some(first) = self.given.insert(path, spelled.to_owned()) else {
            return Ok(());
        };
        // Only this kind of error has the position of the field that was read last.
        Err(E::invalid_value(
            Unexpected::Other(&format!("the field `{spelled}` beside `{first}`")),
            &format!("one spelling of the field, which is now `{path}`").as_str(),
        ))
    }

    /// The rule so far.
    pub fn rule_mut(&mut self) -> &mut FaultRule<L, D> {
        &mut self.rule
    }

    /// The rule.
    pub fn finish(self) -> FaultRule<L, D> {
        self.rule
    }

    fn set_effect<E: Error>(&mut self, effect: Effect<D>) -> Result<(), E> {
        let path = match effect {
            Effect::Lie => "action.lie",
            Effect::Stuck => "action.stuck",
            Effect::OnlyNics => "action.partial",
            Effect::Stale(_) => "action.stale",
            Effect::Nameless => "action.nameless",
        };
        self.claim(path, old::EFFECT)?;
        let action = &mut self.rule.action;
        match effect {
            Effect::Lie => action.lie = true,
            Effect::Stuck => action.stuck = true,
            Effect::OnlyNics => action.partial = Some(Partial::Nics),
            Effect::Stale(by) => action.stale = Some(Stale::By(by)),
            Effect::Nameless => action.nameless = true,
        }
        Ok(())
    }

    /// Reads the value of the field with that path.
    fn read_value<A: MapAccess<'de>>(&mut self, path: &'static str, map: &mut A) -> Result<(), A::Error> {
        let FaultRule { name, matches, action } = &mut self.rule;
        match path {
            "name" => *name = map.next_value()?,
            "match.call" => matches.call = map.next_value::<Option<AnyCall>>()?.map(|call| call.0),
            "match.machine" => matches.machine = text(map)?,
            "match.class" => matches.class = text(map)?,
            "match.zone" => matches.zone = text(map)?,
            "match.client" => matches.client = text(map)?,
            "match.skip" => matches.skip = map.next_value()?,
            "match.times" => matches.times = map.next_value()?,
            "match.probability" => matches.probability = map.next_value()?,
            "match.window" => matches.window = map.next_value()?,
            "match.throttle" => matches.throttle = map.next_value()?,
            "action.code" => action.code = map.next_value::<NamedCode>()?.0,
            "action.error" => action.error = map.next_value()?,
            "action.message" => action.message = text(map)?,
            "action.latency" => action.latency = map.next_value()?,
            "action.at" => action.at = map.next_value()?,
            "action.lostReply" => action.lost_reply = map.next_value()?,
            "action.effectDelay" => action.effect_delay = map.next_value()?,
            "action.stuck" => action.stuck = map.next_value()?,
            "action.partial" => action.partial = map.next_value()?,
            "action.stale" => action.stale = map.next_value()?,
            "action.lie" => action.lie = map.next_value()?,
            "action.nameless" => action.nameless = map.next_value()?,
            _ => return Err(A::Error::unknown_field(path, &RULE)),
        }
        Ok(())
    }
}

/// A text; an empty one counts as absent.
fn text<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<String>, A::Error> {
    let text: Option<String> = map.next_value()?;
    Ok(text.filter(|text| !text.is_empty()))
}

/// The fields below `match` or `action`.
struct Section<'a, L, D> {
    name: &'static str,
    fields: &'static [&'static str],
    reader: &'a mut RuleReader<L, D>,
}

impl<'de, L: Deserialize<'de>, D: Deserialize<'de>> DeserializeSeed<'de> for Section<'_, L, D> {
    type Value = ();

    fn deserialize<T: Deserializer<'de>>(self, deserializer: T) -> Result<(), T::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, L: Deserialize<'de>, D: Deserialize<'de>> Visitor<'de> for Section<'_, L, D> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the fields of {}", self.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            let path = format!("{}.{key}", self.name);
            let known = old::FIELDS
                .into_iter()
                .map(|(_, path)| path)
                .find(|known| *known == path);
            let Some(path) = known else {
                return Err(A::Error::unknown_field(&key, self.fields));
            };
            self.reader.claim(path, path)?;
            self.reader.read_value(path, &mut map)?;
        }
        Ok(())
    }
}

struct RuleVisitor<L, D>(PhantomData<(L, D)>);

impl<'de, L: Deserialize<'de>, D: Deserialize<'de>> Visitor<'de> for RuleVisitor<L, D> {
    type Value = RuleReader<L, D>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fault rule with name, match and action")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut reader = RuleReader::default();
        while let Some(key) = map.next_key::<String>()? {
            reader.read(&key, &mut map)?;
        }
        Ok(reader)
    }
}

impl<'de, L: Deserialize<'de>, D: Deserialize<'de>> Deserialize<'de> for RuleReader<L, D> {
    fn deserialize<T: Deserializer<'de>>(deserializer: T) -> Result<Self, T::Error> {
        deserializer.deserialize_map(RuleVisitor(PhantomData))
    }
}

impl<'de, L: Deserialize<'de>, D: Deserialize<'de>> Deserialize<'de> for FaultRule<L, D> {
    fn deserialize<T: Deserializer<'de>>(deserializer: T) -> Result<Self, T::Error> {
        RuleReader::deserialize(deserializer).map(RuleReader::finish)
    }
}

/// A machine code by the name that `lastOperation.errorCode` has; `OK` has no effect and counts as absent.
struct NamedCode(Option<Code>);

impl<'de> Deserialize<'de> for NamedCode {
    fn deserialize<T: Deserializer<'de>>(deserializer: T) -> Result<Self, T::Error> {
        let name = String::deserialize(deserializer)?;
        match Code::from_name(&name) {
            Some(code) => Ok(Self(Some(code).filter(|code| *code != Code::Ok))),
            None => {
                let names = Code::ALL.map(Code::name);
                let near = names
                    .into_iter()
                    .min_by_key(|known| strsim::damerau_levenshtein(&name, known));
                Err(T::Error::custom(format!(
                    "{name:?} is not a machine code; the closest is {}, and the codes are {}",
                    near.unwrap_or_default(),
                    names.join(", ")
                )))
            }
        }
    }
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
pub(super) fn code_name<S: Serializer>(code: &Option<Code>, serializer: S) -> Result<S::Ok, S::Error> {
    match code {
        Some(code) => serializer.serialize_str(code.name()),
        None => serializer.serialize_none(),
    }
}
