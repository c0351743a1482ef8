//! Any number that an API server can store leads to a decision, without a panic and without a loop over the number.
//!
//! Definitions of an older release, and clients that write status, permit numbers that make no sense.

use mcm_api::keys;
use mcm_core::deployment::{self, Settings};
use mcm_core::{overshoot, set};
use proptest::prelude::*;
use serde_json::json;

use super::objects::{add_full_set, edit_set, in_place, world_of};
use super::sequences::{recreate, rolling};
use super::world::World;
use crate::fixtures::minute;

fn number() -> impl Strategy<Value = i32> {
    prop_oneof![
        Just(i32::MIN),
        Just(-1),
        Just(0),
        Just(1),
        Just(3),
        Just(i32::MAX - 1),
        Just(i32::MAX),
        any::<i32>(),
    ]
}

/// The text of an annotation that contains a number.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        number().prop_map(|number| number.to_string()),
        Just(i64::MAX.to_string()),
        Just(i64::MIN.to_string()),
        Just("99999999999999999999".to_owned()),
        Just(String::new()),
    ]
}

/// A bound of a rollout.
fn bound() -> impl Strategy<Value = serde_json::Value> {
    prop_oneof![
        number().prop_map(|number| json!(number)),
        number().prop_map(|number| json!(format!("{number}%"))),
        Just(json!("9223372036854775807%")),
    ]
}

/// The numbers of a world.
#[derive(Clone, Debug)]
struct Given {
    strategy: usize,
    surge: serde_json::Value,
    unavailable: serde_json::Value,
    numbers: Vec<i32>,
    texts: Vec<String>,
    deleting: bool,
    paused: bool,
}

prop_compose! {
    fn given()(
        strategy in 0..4_usize,
        (surge, unavailable) in (bound(), bound()),
        numbers in proptest::collection::vec(number(), 24),
        texts in proptest::collection::vec(text(), 8),
        (deleting, paused) in (any::<bool>(), any::<bool>()),
    ) -> Given {
        Given { strategy, surge, unavailable, numbers, texts, deleting, paused }
    }
}

/// A deployment with two sets, each with two machines, and the given numbers everywhere.
fn world(given: Given) -> World {
    let Given {
        strategy,
        surge,
        unavailable,
        numbers,
        texts,
        deleting,
        paused,
    } = given;
    let strategy = match strategy {
        0 => recreate(),
        1 => in_place("Auto", numbers[0], numbers[1]),
        2 => in_place("Manual", numbers[0], numbers[1]),
        _ => rolling(surge, unavailable),
    };
    let mut world = world_of(3, strategy);
    for set in 0..2 {
        let class = if set == 0 { "class-b" } else { "class-a" };
        let name = add_full_set(&mut world, set, class, 2, &format!("m{set}"));
        let at = usize::try_from(set).unwrap();
        edit_set(&mut world, &name, |one| {
            let given = &numbers[2 + 6 * at..];
            one.spec.replicas = given[0];
            one.spec.min_ready_seconds = given[1];
            one.status.replicas = given[2];
            one.status.ready_replicas = given[3];
            one.status.available_replicas = given[4];
            one.status.observed_generation = i64::from(given[5]);
            let annotations = one.metadata.annotations.get_or_insert_default();
            let keys = [
                keys::REVISION_ANNOTATION,
                keys::DESIRED_REPLICAS_ANNOTATION,
                keys::MAX_REPLICAS_ANNOTATION,
            ];
            for (key, text) in keys.into_iter().zip(&texts[3 * at..]) {
                annotations.insert(key.to_owned(), text.clone());
            }
        });
    }
    let deployment = world.deployment.as_mut().unwrap();
    let (spec, status) = (&mut deployment.spec, &mut deployment.status);
    spec.replicas = numbers[14];
    spec.min_ready_seconds = numbers[15];
    spec.progress_deadline_seconds = Some(numbers[16]);
    spec.revision_history_limit = Some(numbers[17]);
    spec.auto_preserve_failed_max = Some(numbers[18]);
    spec.paused = paused;
    status.replicas = numbers[19];
    status.updated_replicas = numbers[20];
    status.ready_replicas = numbers[21];
    status.available_replicas = numbers[22];
    status.unavailable_replicas = numbers[23];
    status.collision_count = Some(numbers[0]);
    status.observed_generation = i64::from(numbers[1]);
    let annotations = deployment.metadata.annotations.get_or_insert_default();
    annotations.insert(keys::REVISION_ANNOTATION.to_owned(), texts[6].clone());
    if deleting {
        deployment.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(minute(5)));
    }
    world
}

proptest! {
    #[test]
    fn every_number_leads_to_a_decision(given in given(), up in number(), down in number()) {
        let world = world(given);
        let now = minute(600);
        let view = world.deployment_view().unwrap();
        for honours_min_ready_seconds in [false, true] {
            let settings = Settings { honours_min_ready_seconds, ..Settings::default() };
            deployment::decide(&view, settings, now);
        }
        for name in world.sets.keys() {
            for honours_min_ready_seconds in [false, true] {
                let view = set::View { honours_min_ready_seconds, ..world.set_view(name).unwrap() };
                set::decide(&view, now);
            }
        }
        let view = overshoot::View {
            sets: view.sets,
            deployments: world.deployment.map(std::sync::Arc::new).into_iter().collect(),
            machines: view.machines,
            may_freeze: true,
        };
        let settings = overshoot::Settings {
            up: i64::from(up),
            down: i64::from(down),
            period: std::time::Duration::from_secs(60),
        };
        overshoot::decide(&view, settings, now);
    }
}
