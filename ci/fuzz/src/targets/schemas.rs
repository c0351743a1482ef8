//! Schemas of definitions: a JSON document with the schema, and objects in documents after `---`.

use std::time::Duration;

use serde_json::{Value, json};

use super::stored;
use super::world::{DEFINITION, DEFINITIONS, WIDGETS, World, definition};
use crate::target::Runner;
use crate::{Outcome, Violation};

/// Virtual time until a definition is served.
const ESTABLISHED: Duration = Duration::from_secs(10);

pub(super) fn start() -> Result<Runner, Violation> {
    let mut world = Some(World::new()?);
    Ok(Box::new(move |input| {
        let text = String::from_utf8_lossy(input);
        let mut documents = text.split("\n---\n").map(serde_json::from_str::<Value>);
        let Some(Ok(schema)) = documents.next() else {
            return Ok(Outcome::Refused);
        };
        let objects: Vec<Value> = documents.filter_map(Result::ok).collect();
        try_definition(&mut world, &definition(&schema, &json!([])), &objects)
    }))
}

/// Creates a definition in the kept world, or in a new one, and uses it. Keeps the world only if it refuses the definition.
pub(super) fn try_definition(
    kept: &mut Option<World>,
    definition: &Value,
    objects: &[Value],
) -> Result<Outcome, Violation> {
    let world = kept.take().map_or_else(World::new, Ok)?;
    let created = world.request("POST", DEFINITIONS, "application/json", definition)?;
    if created.code != 201 {
        *kept = Some(world);
        return Ok(Outcome::Refused);
    }
    use_definition(&world, objects)?;
    Ok(Outcome::Accepted)
}

/// Creates, updates, reads and deletes objects of a created definition; then deletes it.
fn use_definition(world: &World, objects: &[Value]) -> Result<(), Violation> {
    if world.request("GET", WIDGETS, "", &Value::Null)?.code != 200 {
        world.wait(ESTABLISHED);
    }
    for object in objects {
        let before = world.server.revision();
        let created = world.request("POST", WIDGETS, "application/json", object)?;
        if created.code != 201 {
            if world.server.revision() != before {
                return Err(Violation::new(format!(
                    "a refused object changed the store: {}",
                    created.json()
                )));
            }
            continue;
        }
        let created = created.json();
        let name = created["metadata"]["name"].as_str().unwrap_or_default();
        // A rule can require a change.
        stored::check(world, &format!("{WIDGETS}/{name}"), &[422])?;
    }
    world.read_as("/openapi/v3", "application/json", &[200])?;
    world.read_as("/openapi/v3/apis/example.com/v1", "application/json", &[200, 404])?;
    stored::check(world, DEFINITION, &[])?;
    // The resources of the system are as before.
    world.expect("GET", "/api/v1/namespaces/default", &Value::Null, &[200])?;
    Ok(())
}
