//! The number of writes for a machine.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_healthy_machine_causes_no_writes() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.create_machine();
            stage.wait(30).await;
            stage.register_node("True");
            stage.wait(60).await;
            stage.writes();
            stage.wait(3600).await;
            assert_eq!(stage.writes(), Vec::<String>::new());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_needs_six_writes_to_run_and_none_afterwards() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.wait(5).await;
            stage.writes();
            stage.create_machine();
            stage.wait(30).await;
            stage.register_node("True");
            stage.wait(30).await;
            assert_eq!(stage.phase(), "Running");
            let (machine, status) = (format!("PATCH {MACHINE}"), format!("PATCH {MACHINE}/status"));
            let expected = [
                machine.clone(),         // finalizer
                machine.clone(),         // provider id, labels
                status.clone(),          // Pending
                format!("PATCH {NODE}"), // name and finalizer
                machine,                 // join duration
                status,                  // Running
            ];
            assert_eq!(stage.object_writes(), expected);
            stage.wait(2 * 3600).await;
            assert_eq!(stage.writes(), Vec::<String>::new());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_ready_at_first_causes_no_additional_write() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.wait(5).await;
            stage.create_machine();
            stage.wait(30).await;
            stage.register_node("False");
            stage.wait(10).await;
            stage.register_node("True");
            stage.wait(30).await;
            assert_eq!(stage.phase(), "Running");
            assert_eq!(stage.object_writes().len(), 6);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_deletion_of_a_machine_with_an_empty_node_needs_eight_writes() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.wait(5).await;
            stage.create_machine();
            stage.wait(30).await;
            stage.register_node("True");
            stage.wait(30).await;
            stage.writes();
            stage.server.delete(MACHINE);
            stage.wait(60).await;
            let (machine, node) = (format!("PATCH {MACHINE}"), format!("PATCH {NODE}"));
            let status = format!("{machine}/status");
            let expected = [
                format!("{node}/status"), // condition Terminating
                status.clone(),           // Terminating, and the node's drain
                node.clone(),             // cordon
                status.clone(),           // no pods are left
                status,                   // the VM is deleted
                format!("DELETE {NODE}"),
                node,    // finalizer
                machine, // finalizer
            ];
            assert_eq!(stage.object_writes(), expected);
        })
        .await;
}
