//! Snapshots of whole plans at the main transitions of a machine's lifecycle.

use mcm_api::{Code, Phase};
use mcm_core::machine::{Answer, Stage};

use crate::fixtures::*;

#[test]
fn the_plan_after_a_vm_was_created() {
    insta::assert_debug_snapshot!(decided(&answered(new_machine(), Answer::Create(Ok(vm()))), minute(1)));
}

#[test]
fn the_plan_after_a_creation_failed() {
    let view = answered(new_machine(), Answer::Create(Err(error(Code::ResourceExhausted))));
    insta::assert_debug_snapshot!(decided(&view, minute(1)));
}

#[test]
fn the_plan_when_the_node_joined() {
    insta::assert_debug_snapshot!(decided(
        &with_conditions(with_vm(Phase::Pending), &healthy()),
        minute(2)
    ));
}

#[test]
fn the_plan_of_a_node_deletion() {
    insta::assert_debug_snapshot!(decided(&deleting(Stage::Node.phrase()), minute(2)));
}
