//! Reads the cloud disturbances of plans. In the deprecated spelling the rule is in the field `fault`, next to `from`
//! and `until`.

use std::fmt;

use fakecloud_api::{RuleReader, Window};
use serde::Deserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};

use crate::DurationExpression;
use crate::file::{FAULT, TIMES};
use crate::latency::Latency;
use crate::step::{Fault, named_fault};

/// Reads a rule in the current or the deprecated spelling.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<Fault>, D::Error> {
    deserializer.deserialize_map(CloudVisitor).map(Box::new)
}

struct CloudVisitor;

impl<'de> Visitor<'de> for CloudVisitor {
    type Value = Fault;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fault rule with name, match and action")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fault, A::Error> {
        let mut reader = RuleReader::<Latency, DurationExpression>::default();
        let mut window = Window {
            from: None,
            until: None,
        };
        let mut keys: Vec<String> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                FAULT => reader = map.next_value()?,
                "from" => window.from = map.next_value()?,
                "until" => window.until = map.next_value()?,
                other => reader.read(other, &mut map)?,
            }
            keys.push(key);
        }
        let old = |key: &&String| *key == FAULT || TIMES.contains(&key.as_str());
        let (nested, other) = (keys.iter().any(|key| key == FAULT), keys.iter().find(|key| !old(key)));
        if let (true, Some(other)) = (nested, other) {
            return Err(A::Error::invalid_value(
                Unexpected::Other(&format!("the field `{other}` beside `fault`")),
                &"the rule directly, without the deprecated field `fault`",
            ));
        }
        if let Some(time) = keys.iter().find(|key| TIMES.contains(&key.as_str())) {
            reader.claim("match.window", time)?;
            reader.rule_mut().matches.window = Some(window);
        }
        named_fault(reader.finish())
    }
}
